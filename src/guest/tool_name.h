#pragma once

#include <string>
#include <string_view>

// Names of tools, as harnesses and sessions call them.

namespace pons::guest {

// What harnesses know our server of tools by.
inline constexpr std::string_view kToolServer = "pons";

// As tools may be called in a conversation.
std::string plain_name(std::string_view tool);
// Of one of a harness' own, as none of ours is.
std::string own_name(std::string_view harness, std::string_view tool);

// Which tool of our server is meant. Most harnesses put the server's name in front, and a title for
// people may say the same in words. Empty: none.
std::string_view tool_on_server(std::string_view name);

}  // namespace pons::guest
