#pragma once

#include "pons/http/client.h"
#include "pons/managed/vault_finder.h"

namespace pons::brain {

// Egress has the vaults; all that is asked of it is whether one is there. `egress` outlives it.
managed::VaultFinder vault_finder(http::Client& egress);

}  // namespace pons::brain
