#include "agent_settings.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/session/agents.h"

namespace pons::cli {

namespace {

struct Known {
  const char* variable;
  const char* kind;
  const char* model;  // what agents ask that name none
};
constexpr Known kKnown[] = {{"ANTHROPIC_API_KEY", "anthropic", "claude-sonnet-4-5"},
                            {"OPENAI_API_KEY", "openai", "gpt-5.1"}};

// A model of the configuration's own comes before what its providers are known for.
std::string usual_model(const config::Config& config) {
  if (config.providers.empty()) return "demo";
  for (const char* name : {"default", "smart"})
    if (config.models.contains(name)) return name;
  if (!config.models.empty()) return config.models.begin()->first;
  for (const Known& known : kKnown)
    for (const auto& [name, document] : config.providers)
      if (const auto json = parse_json(document);
          json && json->is_object() && json->value("kind", "") == known.kind)
        return known.model;
  return {};
}

}  // namespace

void add_provider_of_environment(config::Config& config) {
  if (!config.providers.empty()) return;
  for (const Known& known : kKnown)
    if (const auto key = config::read_environment(known.variable); key && !key->empty()) {
      config.providers[known.kind] = dump_json({{"kind", known.kind}, {"key_env", known.variable}});
      return;
    }
}

Result<void> check_agents(const config::LoadedConfig& loaded) {
  const auto agents = session::read_agents(loaded.config.agents, usual_model(loaded.config));
  if (agents) return {};
  return make_error(ErrorCode::kInvalid, "check agents",
                    fmt::format("{}: {}", loaded.file, agents.error().message));
}

Result<void> prepare_agents(const config::LoadedConfig& loaded, supervisor::ForRoles& for_roles) {
  TRY_VOID(check_agents(loaded));
  for_roles.brain["agents"] =
      dump_json({{"agents", loaded.config.agents}, {"model", usual_model(loaded.config)}});
  return {};
}

}  // namespace pons::cli
