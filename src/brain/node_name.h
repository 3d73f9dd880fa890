#pragma once

#include <string>

#include "pons/base/result.h"

namespace pons::brain {

// The name of this machine among those that share a database, from that file; made with the first
// start, and the same from then on. kInvalid when the file holds none.
Result<std::string> own_node_name(const char* file);

}  // namespace pons::brain
