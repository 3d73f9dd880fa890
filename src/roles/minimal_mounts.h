#pragma once

#include <cstdint>
#include <string>

#include "pons/base/result.h"
#include "pons/roles/profile.h"

namespace pons::roles {

// Which processes are in /proc. Who does not own the pid namespace gets no /proc of its own, only
// the host's as it is.
enum class Processes : std::uint8_t { kOwn, kAll };

// Moves this process into a mount namespace of its own that holds the profile's read-only paths,
// processes in /proc, /sys read only, cgroups, five devices and the role's own state
// directory, and nothing else: no other role's files, no keys.
Result<void> enter_minimal_mounts(const Profile& profile, const std::string& state_dir,
                                  Processes processes);

}  // namespace pons::roles
