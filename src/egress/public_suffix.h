#pragma once

#include <string_view>

namespace pons::egress {

// True when names directly below this one belong to different owners: the Public Suffix List, with
// its private section, and our own additions. Such a name must not have a wildcard.
bool is_shared_suffix(std::string_view name);

}  // namespace pons::egress
