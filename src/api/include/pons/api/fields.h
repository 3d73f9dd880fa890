#pragma once

#include "pons/managed/fields.h"

namespace pons::api {
using namespace managed;
}
