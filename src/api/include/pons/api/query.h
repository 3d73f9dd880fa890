#pragma once

#include "pons/managed/query.h"

namespace pons::api {
using namespace managed;
}
