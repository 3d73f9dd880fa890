#pragma once

#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::vault {

// "/repos/acme/*/pulls", "/acme/**": literal segments, `*` for one, `**` as the last for all below.
Result<void> check_path_pattern(std::string_view pattern);

// Compares decoded segments. A path that two readers could take apart differently (dot segments,
// empty segments, encoded slashes, control characters) matches nothing.
bool path_matches(std::string_view pattern, std::string_view path);

}  // namespace pons::vault
