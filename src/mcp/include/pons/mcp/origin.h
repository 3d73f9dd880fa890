#pragma once

#include <string_view>

namespace pons::mcp {

// Whether a page of that origin may speak to this server: one of this machine, of `domain` or of
// its "api.". A name that a stranger's page was given, and that was then turned to this machine, is
// none of them, whatever the Host field says. Other names below `domain` are those of sandboxes.
bool is_own_origin(std::string_view origin, std::string_view domain);

}  // namespace pons::mcp
