#include "pons/session/agents.h"

#include <fmt/format.h>

#include "pons/base/json_place.h"
#include "pons/session/tools.h"

namespace pons::session {

namespace {

constexpr std::uint64_t kTokensMax = 10'000'000;
constexpr std::uint64_t kNanoPerMicroDollar = 1'000;

Result<void> read_texts(const JsonPlace& place, AgentSpec& agent) {
  if (place.has("model")) agent.model = TRY(place.at("model").text());
  if (place.has("system")) agent.system = TRY(place.at("system").text());
  if (place.has("template")) agent.sandbox_template = TRY(place.at("template").text());
  if (place.has("environment")) agent.environment = TRY(place.at("environment").text());
  if (agent.model.empty()) return place.refuse("\"model\" is missing");
  return {};
}

Result<void> read_tools(const JsonPlace& place, AgentSpec& agent) {
  constexpr std::size_t kToolsMax = 16;
  TRY_VOID(place.expect_list(kToolsMax));
  agent.tools.clear();
  for (std::size_t i = 0; i < place.value.size(); ++i) {
    std::string tool = TRY(place.at(i).text());
    if (!is_allowed({}, tool))
      return place.at(i).refuse(fmt::format("there is no tool \"{}\": {}, {}, {} or {}", tool,
                                            kProvision, kExecute, kAskHuman, kSpawnAgent));
    agent.tools.push_back(std::move(tool));
  }
  return {};
}

Result<void> read_number(const JsonPlace& place, const char* key, std::uint64_t max,
                         std::int64_t& into) {
  if (place.has(key)) into = static_cast<std::int64_t>(TRY(place.at(key).number(1, max)));
  return {};
}

Result<AgentSpec> read_agent(const std::string& name, const std::string& document,
                             AgentSpec agent) {
  const Json json = TRY(parse_json(document));
  const JsonPlace place{.value = json, .pointer = fmt::format("/agents/{}", name)};
  TRY_VOID(place.expect_object({"model", "system", "template", "environment", "tools",
                                "answer_tokens", "context_tokens", "calls_per_turn",
                                "budget_tokens", "budget_microdollars", "checkpoints"}));
  agent.name = name;
  TRY_VOID(read_texts(place, agent));
  if (place.has("checkpoints")) agent.checkpoints = TRY(place.at("checkpoints").flag());
  if (place.has("tools")) TRY_VOID(read_tools(place.at("tools"), agent));
  TRY_VOID(read_number(place, "answer_tokens", kTokensMax, agent.answer_tokens));
  TRY_VOID(read_number(place, "context_tokens", kTokensMax, agent.context_tokens));
  TRY_VOID(read_number(place, "calls_per_turn", 10'000, agent.calls_per_turn));
  TRY_VOID(read_number(place, "budget_tokens", 1'000'000'000'000, agent.budget_tokens));
  if (place.has("budget_microdollars"))
    agent.budget_nano = static_cast<std::int64_t>(
        TRY(place.at("budget_microdollars").number(1, 1'000'000'000'000)) * kNanoPerMicroDollar);
  return agent;
}

}  // namespace

Result<std::map<std::string, AgentSpec>> read_agents(
    const std::map<std::string, std::string>& documents, const std::string& model) {
  constexpr const char* kDefault = "default";
  AgentSpec basis{.name = kDefault, .model = model};
  if (const auto own = documents.find(kDefault); own != documents.end())
    basis = TRY(read_agent(kDefault, own->second, basis));
  std::map<std::string, AgentSpec> agents = {{kDefault, basis}};
  for (const auto& [name, document] : documents)
    if (name != kDefault) agents[name] = TRY(read_agent(name, document, basis));
  return agents;
}

}  // namespace pons::session
