#pragma once

#include "pons/base/json.h"
#include "pons/base/result.h"
#include "pons/managed/harness_choice.h"
#include "pons/session/event.h"

namespace pons::managed {

// What an agent's metadata say of its harness is something that there is.
Result<void> check_harness(const HarnessChoice& choice, const Json& metadata);
// {"name", "placement"}, or null: Pons itself. As it stands in the order of a session.
Json harness_of(const HarnessChoice& choice, const Json& metadata);
void add_harness(const Json& harness, session::AgentSpec& spec);
// Of the members, in their order.
void add_member_harnesses(const Json& harnesses, session::AgentSpec& spec);
// A member works beside its session's own agent, in whose machine one harness is enough.
Result<void> check_member(const Json& metadata);

}  // namespace pons::managed
