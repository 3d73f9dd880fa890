#pragma once

#include "pons/managed/fields.h"

namespace pons::managed {

// What a version of an agent says, as the API shows it: name, description, system, model, tools,
// mcp_servers, skills, multiagent, execution_identity, metadata.
Result<Json> read_new_agent(const Json& body);
// What it says next. `version`, the one that the client has seen, is not looked at here.
Result<Json> read_changed_agent(const Json& before, const Json& body);

// An agent in a session: the same without metadata, with what the session says otherwise.
Result<Json> read_overrides(const Json& agent, const JsonPlace& place);

}  // namespace pons::managed
