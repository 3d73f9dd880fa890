#pragma once

#include "pons/linux/loop.h"
#include "pons/session/event.h"

namespace pons::session {

// What others say of a failure may be long, and anything.
std::string reason_of(std::string message);
std::string reason_of(const Error& error);

// Nothing was done.
ToolEnded refused(Seq call, const Error& error);
// What a failed request to whoever does the call means to the model.
ToolEnded failed(Seq call, const Error& error);

std::int64_t milliseconds_since(const linux::Loop& loop, TimePoint begun);

}  // namespace pons::session
