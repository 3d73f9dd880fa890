#pragma once

#include "pons/managed/fields.h"
#include "pons/session/event.h"

namespace pons::managed {

// The memory stores among a session's resources, for the session. Tools of files decide for them,
// too: who may not write files writes no notes, and who has to be asked for the one is asked for
// the other.
void add_memory(const Json& agent, const Json& resources, session::AgentSpec& spec);

// The model could not tell two tools of one name apart.
Result<void> check_tool_names(const session::AgentSpec& spec);

}  // namespace pons::managed
