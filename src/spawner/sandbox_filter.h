#pragma once

#include "pons/base/result.h"
#include "pons/linux/seccomp.h"

namespace pons::spawner {

enum class NestedUserNamespaces : std::uint8_t { kRefused, kAllowed };

// The system calls of every process in a sandbox, by name. What is not listed is EPERM; clone3 is
// ENOSYS, because its flags cannot be seen by a filter and libraries fall back to clone.
Result<linux::SeccompFilter> sandbox_filter(NestedUserNamespaces nested);

}  // namespace pons::spawner
