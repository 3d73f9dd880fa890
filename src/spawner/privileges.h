#pragma once

#include <cstdint>

#include "pons/base/result.h"

namespace pons::spawner {

// What the spawner is root of. Started by a user it is root of a user namespace of its own, in
// which that user is the only one: no ranges of ids, no idmapped mounts, no trusted attributes.
enum class Privileges : std::uint8_t { kHostRoot, kOwnNamespace };

// Who a sandbox's processes are where there is only one user to be.
inline constexpr std::uint32_t kOnlyUser = 1000;

// Enters a user namespace of its own unless the caller is root already.
Result<Privileges> take_privileges();

}  // namespace pons::spawner
