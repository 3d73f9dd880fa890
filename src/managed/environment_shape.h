#pragma once

#include "pons/managed/fields.h"

namespace pons::managed {

// What an environment says, as the API shows it: name, description, config, metadata, scope.
Result<Json> read_new_environment(const Json& body);
Result<Json> read_changed_environment(const Json& before, const Json& body);

// The policy of its sandboxes toward the network, as egress reads it; empty: they have none. Where
// the environment lets MCP servers be reached, those of the agent are in it.
std::string network_policy_of(const Json& environment, const Json& mcp_servers);
// From then on the policy names the vaults, too: their credentials are for whoever is under it.
void add_vaults(const std::string& project, const Json& vault_ids, Json& environment);

}  // namespace pons::managed
