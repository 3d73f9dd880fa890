#pragma once

#include "pons/managed/fields.h"

namespace pons::managed {

// `tools` and `mcp_servers` of an agent as the API shows them: every default filled in.
Result<Json> read_tools(const JsonPlace& place);
Result<Json> read_mcp_servers(const JsonPlace& place);
// Each server is used by a toolset, and each toolset's server is there.
Result<void> check_servers_are_used(const JsonPlace& place, const Json& tools, const Json& servers);

}  // namespace pons::managed
