#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/json.h"
#include "pons/base/result.h"

namespace pons::cli {

// "5usd/day", "60requests/minute": {"what", "amount", "window"}. Whether there is such a window is
// for the gateway to say.
Result<Json> parse_limit(std::string_view text);

// "$1.25", "12,000 tokens": for people.
std::string amount_text(std::string_view what, std::int64_t amount);
std::string dollars(std::int64_t nano);

}  // namespace pons::cli
