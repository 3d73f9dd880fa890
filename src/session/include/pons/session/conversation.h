#pragma once

#include <string>

#include "pons/session/state.h"

// The conversation as it is sent to the model, in the Messages protocol.

namespace pons::session {

// What the model is to read next from the user's side: results of its calls, then what people said
// (that waits while a summary is made, which must not swallow it). A JSON list of blocks; empty:
// nothing.
std::string next_user_content(const State& state, Purpose purpose);

// Tells two conversations apart: over all messages that the model would be sent now.
std::string digest_of(const State& state, Purpose purpose);

// The request for a question that the state holds (State::asked).
std::string write_request(const State& state, Purpose purpose);

// The message that takes the place of all before it.
Message summary_message(std::string_view summary);

}  // namespace pons::session
