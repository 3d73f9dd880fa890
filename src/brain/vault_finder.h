#pragma once

#include <cstdint>

#include "pons/http/client.h"
#include "pons/managed/vault_finder.h"

namespace pons::brain {

// Where others share the store, a vault that is not here may be on the machine of one of them.
enum class OtherVaults : std::uint8_t { kNone, kElsewhere };

// Egress has the vaults; all that is asked of it is whether one is there. `egress` outlives it.
managed::VaultFinder vault_finder(http::Client& egress, OtherVaults others);

}  // namespace pons::brain
