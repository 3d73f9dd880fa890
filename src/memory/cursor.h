#pragma once

#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::memory {

// Where a list goes on. `list` names it with everything that decides its order and its rows: a
// cursor of another list is refused, and not followed into the wrong place.
std::string write_cursor(std::string_view list, std::string_view position);
Result<std::string> read_cursor(std::string_view list, std::string_view cursor);

}  // namespace pons::memory
