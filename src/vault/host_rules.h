#pragma once

#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::vault {

// The pattern in its canonical form (lower case), or why credentials must not be bound to it.
Result<std::string> parse_host_pattern(std::string_view text);

// `*.` stands for exactly one label.
bool host_matches(std::string_view pattern, std::string_view host);

}  // namespace pons::vault
