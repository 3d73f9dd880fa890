#pragma once

#include <string_view>

namespace pons::egress {

// The files of data/, as they were at build time.
std::string_view services_json();
std::string_view packages_json();

}  // namespace pons::egress
