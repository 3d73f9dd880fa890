#pragma once

#include <string>

#include "pons/base/result.h"
#include "pons/roles/profile.h"

namespace pons::roles {

// Moves this process into a mount namespace of its own that holds the profile's read-only paths,
// its own processes in /proc, /sys read only, cgroups, five devices and the role's own state
// directory, and nothing else: no other role's files, no keys.
Result<void> enter_minimal_mounts(const Profile& profile, const std::string& state_dir);

}  // namespace pons::roles
