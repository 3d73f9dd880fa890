#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/json.h"
#include "pons/session/agents.h"
#include "server_tools.h"

using namespace pons;
using namespace pons::brain;

// What a server, a toolset and an agent's network say of tools: names that a model takes, rules
// that are JSON, and nothing that stops the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)rule_of(text, "tool");
  const std::string alias = alias_for(text, text, {});
  CHECK(!alias.empty() && alias.size() <= 64);
  if (const auto policy = policy_toward(text, "https://far.example/mcp", "")) {
    const auto json = parse_json(*policy);
    CHECK(json && json->is_object() && json->contains("mode"));
  }
  (void)policy_toward(R"({"mode":"list","allow":[{"host":"a.example"}]})", text, text);
  (void)session::read_agents({{"a", text}}, "m");
  mcp::ToolList list;
  if (!mcp::add_tools(list, text)) return 0;
  mcp::ToolPins pins;
  for (const mcp::RemoteTool& tool : list.tools) pins.accept(tool);
  std::vector<session::ServerTool> tools;
  std::vector<session::ServerTrouble> troubles;
  add_server_tools({.name = "far", .url = "https://far.example/"}, list, pins, tools, troubles);
  CHECK(tools.size() <= kServerToolsMax);
  for (const session::ServerTool& tool : tools) CHECK(parse_json(tool.definition).has_value());
  return 0;
}
