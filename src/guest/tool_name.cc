#include "tool_name.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/base/id.h"

namespace pons::guest {

namespace {

constexpr std::size_t kNameBytesMax = 64;

struct Form {
  std::string_view before;
  std::string_view after;
};
// Claude Code and those that learned from it; OpenCode; agents behind ACP: Codex, Gemini CLI.
constexpr std::array kForms = {
    Form{"mcp__pons__", ""}, Form{"mcp_pons_", ""},
    Form{"pons__", ""},      Form{"pons_", ""},
    Form{"pons.", ""},       Form{"pons/", ""},
    Form{"Tool: pons/", ""}, Form{"", " (pons MCP Server)"},
};

}  // namespace

std::string plain_name(std::string_view tool) {
  std::string name(tool.substr(0, kNameBytesMax));
  std::ranges::replace_if(name, [](char c) { return !is_id_text(std::string_view(&c, 1)); }, '_');
  return name.empty() ? "unnamed" : name;
}

std::string own_name(std::string_view harness, std::string_view tool) {
  return fmt::format("{}_{}", harness, plain_name(tool));
}

std::string_view tool_on_server(std::string_view name) {
  for (const auto& [before, after] : kForms) {
    if (!name.starts_with(before) || !name.ends_with(after)) continue;
    const std::size_t framed = before.size() + after.size();
    if (name.size() <= framed) continue;
    const std::string_view tool = name.substr(before.size(), name.size() - framed);
    if (is_id_text(tool)) return tool;
  }
  return {};
}

}  // namespace pons::guest
