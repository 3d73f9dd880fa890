#pragma once

#include "pons/roles/start.h"

namespace pons::egress {

// The only way out of sandboxes; holds the vault. Returns the process's exit code.
int run_egress(roles::RoleStart start);

}  // namespace pons::egress
