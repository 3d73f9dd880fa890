#pragma once

#include "pons/roles/start.h"

namespace pons::warden {

// The warden's process: sandboxes over HTTP (pons/sandbox/wire.h), and, as the only one who may
// speak to it, the spawner's health: GET /spawner/identity and POST /spawner/selftest. Returns the
// exit code.
int run_warden(roles::RoleStart start);

}  // namespace pons::warden
