#pragma once

#include "pons/roles/start.h"

namespace pons::warden {

// The warden's process. Today it answers for its own health and, as the only one who may speak to
// it, for the spawner's: GET /spawner/identity and POST /spawner/selftest. Returns the exit code.
int run_warden(roles::RoleStart start);

}  // namespace pons::warden
