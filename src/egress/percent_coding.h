#pragma once

#include <string>
#include <string_view>

namespace pons::egress {

// Everything but letters, digits and -_.~ as %XX.
std::string percent_encoded(std::string_view text);
// However it is written; what is no escape stays as it is.
std::string percent_decoded(std::string_view text);

}  // namespace pons::egress
