#pragma once

#include <string>

#include "pons/roles/start.h"

namespace pons::brain {

// The brain's process: keeps the store. To the front: the API keys it may let in, and the records
// of sandboxes. To the operator: projects, keys, and a copy of the store. Returns the exit code.
int run_brain(roles::RoleStart start);

// The file that holds everything it keeps.
std::string store_path(const std::string& state_dir);

}  // namespace pons::brain
