#pragma once

#include "pons/managed/caller.h"

namespace pons::api {
using namespace managed;
}
