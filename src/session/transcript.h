#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "pons/session/state.h"

namespace pons::session {

// How a conversation is told to somebody who takes no part in it.
struct TranscriptOrder {
  std::string_view agent;        // what the model is called there
  std::size_t text_bytes = 0;    // of what is said at once; of what is longer, both ends
  std::size_t result_bytes = 0;  // the same of results and arguments of calls
  std::size_t bytes_max = 0;     // of all; what does not fit is left out behind the first message
};

// In words alone: what is no text is named by what it is.
std::string write_transcript(const State& state, const TranscriptOrder& order);

}  // namespace pons::session
