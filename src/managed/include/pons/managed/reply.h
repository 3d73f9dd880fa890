#pragma once

#include "pons/api/reply.h"

namespace pons::managed {
using namespace api;
}
