#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pons/mcp/remote_tool.h"
#include "pons/session/event.h"

// Which tools of a server of others a session has, and under which names.

namespace pons::brain {

// `toolset` as the Managed Agents API shows one: {"default_config", "configs"}; empty: all of them,
// and a person allows each call.
struct ToolRule {
  bool enabled = true;
  bool asks = true;
};
ToolRule rule_of(std::string_view toolset, std::string_view tool);

// What a model may call a tool by: letters, digits, _ and -, at most 64, and none of `taken`.
std::string alias_for(std::string_view server, std::string_view tool,
                      const std::vector<session::ServerTool>& taken);

inline constexpr std::size_t kServerToolsMax = 128;  // of all servers of a session
inline constexpr std::size_t kDefinitionBytesMax = 512 << 10;

// Adds those tools of the list that were accepted and are enabled; what is left out is a trouble.
void add_server_tools(const session::ServerGrant& server, const mcp::ToolList& list,
                      const mcp::ToolPins& pins, std::vector<session::ServerTool>& tools,
                      std::vector<session::ServerTrouble>& troubles);

// The vaults that a network policy names, with commas; empty: none.
std::string vaults_in(std::string_view network);

// The part of a network policy that says whether that host may be reached, with the credential that
// goes there. kInvalid: it is none, or too long for that.
Result<std::string> policy_toward(std::string_view network, std::string_view url,
                                  std::string_view credential);

}  // namespace pons::brain
