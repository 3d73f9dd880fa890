#pragma once

#include <span>

#include "pons/base/result.h"
#include "pons/linux/seccomp.h"
#include "pons/roles/profile.h"

namespace pons::roles {

// The filter of a profile: an allow-list of its groups, or the spawner's deny-list.
Result<linux::SeccompFilter> make_filter(const Profile& profile);

}  // namespace pons::roles
