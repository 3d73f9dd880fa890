#pragma once

#include "pons/managed/reply.h"

namespace pons::api {
using namespace managed;
}
