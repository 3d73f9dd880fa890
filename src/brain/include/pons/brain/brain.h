#pragma once

#include "pons/roles/start.h"

namespace pons::brain {

// The brain's process: keeps the store. To the front: the API keys it may let in, and the records
// of sandboxes. To the operator: projects, keys, and a copy of the store. Returns the exit code.
int run_brain(roles::RoleStart start);

}  // namespace pons::brain
