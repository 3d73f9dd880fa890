#pragma once

#include "pons/api/query.h"

namespace pons::managed {
using namespace api;
}
