#pragma once

#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/session/state.h"

namespace pons::session {

// The question for what was said so far, in short. It holds words only, and no tool: whatever the
// conversation holds, it is no longer than the model's window, and each time that it was too long
// all the same it is half as long.
std::string write_summary_request(const State& state);

// Whether an answer may stand for everything that was said. An error says why not.
Result<void> check_summary(std::string_view text, std::string_view stop_reason);

}  // namespace pons::session
