#pragma once

#include "call.h"

namespace pons::e2b {

// process.Process/StreamInput: a body of many messages, the first of which names the process, and
// one answer at its end.
Task<> answer_stream_input(Call& call);

}  // namespace pons::e2b
