#pragma once

#include "pons/managed/fields.h"

namespace pons::managed {

// What an environment says, as the API shows it: name, description, config, metadata, scope.
Result<Json> read_new_environment(const Json& body);
Result<Json> read_changed_environment(const Json& before, const Json& body);

// The policy of its sandboxes toward the network, as egress reads it; empty: they have none.
std::string network_policy_of(const Json& environment);
// From then on it names the vaults, too: stubs of their credentials are variables of the sandboxes.
void add_vaults(const std::string& project, const Json& vault_ids, Json& environment);

}  // namespace pons::managed
