#pragma once

#include <string_view>

#include "pons/base/json.h"
#include "pons/session/event.h"

namespace pons::managed {

// A tool as whoever offers it calls it.
struct NamedTool {
  std::string_view name;
  std::string_view server = {};  // empty: the agent's own
};

// Whether a call waits for a person, and which policy of the agent has decided that: members
// "evaluated_permission" and "evaluation" of the event that shows the call. By the policy "auto"
// Pons lets pass what only looks, and asks about everything else: it judges nobody's intentions, so
// that it never denies.
void add_evaluation(Json& event, const session::AgentSpec& agent, NamedTool tool, bool asks);

// The same of a call that was refused before any policy was looked at.
void add_refusal(Json& event);

}  // namespace pons::managed
