#pragma once

#include "pons/roles/start.h"

namespace pons::front {

// The front's process: the public listener. GET /healthz is open to all; GET /x/status tells the
// operator, by the admin token, how the roles behind the door are. Returns the exit code.
int run_front(roles::RoleStart start);

}  // namespace pons::front
