#pragma once

#include <string>

#include "pons/session/event.h"

// What becomes of a call that came to nothing, as the model is told.

namespace pons::session {

// What others say of a failure may be long, and anything.
std::string reason_of(std::string message);
std::string reason_of(const Error& error);

// Nothing was done.
ToolEnded refused(Seq call, const Error& error);
// By the kind of failure: nothing was done, or nobody knows.
ToolEnded failed(Seq call, const Error& error);

}  // namespace pons::session
