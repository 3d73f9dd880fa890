#pragma once

namespace pons::programs {

// `pons role NAME`, as the supervisor starts it: reads what it was given and becomes that role.
// Returns the exit code.
int run_role_program();

}  // namespace pons::programs
