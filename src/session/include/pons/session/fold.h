#pragma once

#include <string_view>

#include "pons/session/state.h"

namespace pons::session {

// What the session is after that event. Pure: no clock, no chance, nothing outside. Total: an event
// that makes no sense here (of a call that is over, of a model that was not asked) changes nothing
// but the head.
void fold(State& state, const StoredEvent& stored);
State fold(State state, const std::vector<StoredEvent>& events);

// Whom a call of that tool waits for when it is begun.
WaitsFor whom_it_waits_for(const State& state, std::string_view tool);

}  // namespace pons::session
