#pragma once

#include "pons/api/caller.h"

namespace pons::managed {
using namespace api;
}
