#pragma once

#include <string>
#include <string_view>

namespace pons::config {

// Text of the file as it may stand in a message: in double quotes, control characters escaped so
// that a terminal does not obey them, cut after 60 bytes.
std::string quote(std::string_view text);

}  // namespace pons::config
