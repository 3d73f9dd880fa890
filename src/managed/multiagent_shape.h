#pragma once

#include "pons/managed/fields.h"
#include "pons/session/event.h"

// Agents that another may give tasks to, as threads of its session.

namespace pons::managed {

// With every default filled in. `before`: what the agent has now, which some shapes change in part.
Result<Json> read_multiagent(const Json& before, const JsonPlace& place);

// The list in it that holds {"type": "agent" | "self" | "advisor"}; null: it has none.
Json* members_in(Json& multiagent);

// What they mean to a session whose agent has this `multiagent` with whole agents in it.
using SpecOf = session::AgentSpec (*)(const Json& agent, const Json& environment);
void add_members(const Json& multiagent, const Json& environment, SpecOf spec_of,
                 session::AgentSpec& spec);

// The agent of a thread as the API shows it, by the name that its session knows it by.
Json find_member(const Json& agent, std::string_view name);

}  // namespace pons::managed
