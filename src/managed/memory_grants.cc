#include "memory_grants.h"

#include <initializer_list>

#include <fmt/format.h>

#include "pons/memory/tools.h"

namespace pons::managed {

namespace {

// A tool of the built-in toolset as the agent has it; null: it has no such toolset.
Json config_of(const Json& agent, std::string_view tool) {
  for (const Json& toolset : agent.at("tools")) {
    if (toolset.at("type") != "agent_toolset_20260401") continue;
    for (const Json& config : toolset.at("configs"))
      if (config.at("name") == tool) return config;
    return toolset.at("default_config");
  }
  return nullptr;
}

enum class Does : std::uint8_t { kLook, kChange };

// As the tool of files of the same kind.
void add_policy(const Json& config, Does does, std::initializer_list<std::string_view> tools,
                session::AgentSpec& spec) {
  if (config.is_null()) return;
  const Json& policy = config.at("permission_policy").at("type");
  const bool is_judged = policy == "auto";
  const bool asks = policy == "always_ask" || (is_judged && does == Does::kChange);
  for (const std::string_view tool : tools) {
    if (asks) spec.asks.emplace_back(tool);
    if (is_judged) spec.judged.emplace_back(tool);
  }
}

}  // namespace

void add_memory(const Json& agent, const Json& resources, session::AgentSpec& spec) {
  const Json reading = config_of(agent, "read");
  const Json writing = config_of(agent, "write");
  const bool may_write = writing.is_null() || writing.at("enabled").get<bool>();
  for (const Json& resource : resources) {
    if (resource.at("type") != "memory_store") continue;
    const auto path = resource.at("mount_path").get<std::string>();
    const Json& instructions = resource.at("instructions");
    spec.memory.push_back(
        {.store = resource.at("memory_store_id"),
         .name = path.substr(path.rfind('/') + 1),
         .description = resource.at("description"),
         .instructions = instructions.is_null() ? "" : instructions.get<std::string>(),
         .read_only = !may_write || resource.at("access") == "read_only"});
  }
  if (spec.memory.empty()) return;
  add_policy(reading, Does::kLook, {memory::kSearchTool, memory::kReadTool, memory::kListTool},
             spec);
  add_policy(writing, Does::kChange, {memory::kWriteTool, memory::kDeleteTool}, spec);
}

Result<void> check_tool_names(const session::AgentSpec& spec) {
  for (const session::CustomTool& tool : spec.custom)
    if (!spec.memory.empty() && memory::is_memory_tool(tool.name))
      return make_error(ErrorCode::kInvalid, "make session",
                        fmt::format("the custom tool {} has the name of one that comes with memory "
                                    "stores",
                                    tool.name));
  return {};
}

}  // namespace pons::managed
