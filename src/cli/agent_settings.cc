#include "agent_settings.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/harness/recipe.h"
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

// `place`: where it is named.
Result<void> check_harness(const config::LoadedConfig& loaded, const std::string& place,
                           const std::string& harness) {
  if (harness.empty()) return {};
  std::vector<std::string_view> names = {"native"};
  for (const harness::Recipe& recipe : harness::known_recipes()) names.push_back(recipe.name);
  for (const auto& [name, document] : loaded.config.harnesses) names.push_back(name);
  if (std::ranges::find(names, harness) != names.end()) return {};
  const auto nearest = nearest_match(harness, names);
  return make_error(
      ErrorCode::kInvalid, "check agents",
      fmt::format("{}: {}: there is no harness \"{}\"{}; there are {}", loaded.file, place, harness,
                  nearest ? fmt::format(" (did you mean {}?)", *nearest) : "",
                  fmt::join(names, ", ")));
}

// An operator's own counts before ours of the same name.
Result<void> check_placement(const config::LoadedConfig& loaded, const std::string& name,
                             const session::AgentSpec& agent,
                             const std::vector<harness::Recipe>& own) {
  const auto placement =
      agent.harness_in_machine ? harness::Placement::kSandbox : harness::Placement::kBrain;
  for (const auto* recipes : {&own, &harness::known_recipes()}) {
    const auto found = std::ranges::find(*recipes, agent.harness, &harness::Recipe::name);
    if (found == recipes->end()) continue;
    if (found->lives_in(placement)) return {};
    return make_error(
        ErrorCode::kInvalid, "check agents",
        fmt::format("{}: agents.{}.placement: the harness {} cannot live in the placement {}",
                    loaded.file, name, agent.harness, harness::name_of(placement)));
  }
  return {};
}

}  // namespace

std::string own_recipes(const config::Config& config) {
  std::string all;
  for (const auto& [name, document] : config.harnesses)
    all += fmt::format("{}{}:{}", all.empty() ? "" : ",", dump_json(name), document);
  return fmt::format("{{{}}}", all);
}

void add_provider_of_environment(config::Config& config) {
  if (!config.providers.empty()) return;
  for (const Known& known : kKnown)
    if (const auto key = config::read_environment(known.variable); key && !key->empty()) {
      config.providers[known.kind] = dump_json({{"kind", known.kind}, {"key_env", known.variable}});
      return;
    }
}

Result<void> check_agents(const config::LoadedConfig& loaded) {
  const auto refuse = [&](const Error& error) {
    return make_error(ErrorCode::kInvalid, "check agents",
                      fmt::format("{}: {}", loaded.file, error.message));
  };
  const auto agents =
      session::read_agents(loaded.config.agents, usual_model(loaded.config), loaded.config.harness);
  if (!agents) return refuse(agents.error());
  const auto recipes = harness::read_recipes(own_recipes(loaded.config), "harnesses");
  if (!recipes) return refuse(recipes.error());
  TRY_VOID(check_harness(loaded, "harness", loaded.config.harness));
  for (const auto& [name, agent] : *agents) {
    TRY_VOID(check_harness(loaded, fmt::format("agents.{}.harness", name), agent.harness));
    TRY_VOID(check_placement(loaded, name, agent, *recipes));
  }
  return {};
}

Result<void> prepare_agents(const config::LoadedConfig& loaded, supervisor::ForRoles& for_roles) {
  TRY_VOID(check_agents(loaded));
  for_roles.brain["agents"] = dump_json({{"agents", loaded.config.agents},
                                         {"model", usual_model(loaded.config)},
                                         {"harness", loaded.config.harness},
                                         {"harnesses", own_recipes(loaded.config)}});
  for_roles.brain["package_network"] = loaded.config.packages.network;
  return {};
}

}  // namespace pons::cli
