#pragma once

#include <string_view>

#include "pons/base/result.h"
#include "pons/session/event.h"

namespace pons::brain {

// What the gateway says was used: {"input", "cache_read", "cache_write", "output",
// "cost_nano_usd"}.
Result<session::Usage> read_gateway_usage(std::string_view body);

}  // namespace pons::brain
