#pragma once

#include <string_view>

namespace pons::vault {

// True when names directly below it may belong to anyone: a wildcard there would mean strangers,
// for a credential as for a rule. Public suffixes, and names under which hosts are given out that
// are none. Lower case, no trailing dot.
bool is_shared_suffix(std::string_view name);

}  // namespace pons::vault
