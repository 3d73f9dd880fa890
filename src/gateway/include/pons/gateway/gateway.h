#pragma once

#include "pons/roles/start.h"

namespace pons::gateway {

// The role's whole life; returns the process's exit code.
int run_gateway(roles::RoleStart start);

}  // namespace pons::gateway
