#pragma once

#include "pons/api/fields.h"

namespace pons::managed {
using namespace api;
}
