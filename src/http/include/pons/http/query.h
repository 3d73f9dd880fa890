#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::http {

// Undoes percent-encoding; nothing when it is broken. '+' stays '+'.
std::optional<std::string> percent_decode(std::string_view text);
std::string percent_encode(std::string_view text);  // all but letters, digits and -._~

// The named value of a query, decoded; nothing when it is not there, kInvalid when it is broken.
Result<std::optional<std::string>> find_query(std::string_view query, std::string_view name);

}  // namespace pons::http
