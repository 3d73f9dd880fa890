#pragma once

#include <cstdint>

#include "call.h"

namespace pons::e2b {

// Passes the request on to whatever listens at that port inside the sandbox, and its answer back,
// as they come. WebSockets too.
Task<> answer_port(Call& call, std::uint16_t port);

}  // namespace pons::e2b
