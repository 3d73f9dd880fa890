#pragma once

#include "pons/roles/start.h"

namespace pons::spawner {

// The spawner's process: confines itself, then answers the warden's requests one after the other
// until SIGTERM. Returns the exit code.
int run_spawner(roles::RoleStart start);

}  // namespace pons::spawner
