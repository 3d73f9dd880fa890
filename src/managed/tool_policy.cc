#include "tool_policy.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace pons::managed {

namespace {

// What a server's toolset says about one of its tools.
bool is_auto(const std::string& toolset, std::string_view tool) {
  const auto json = parse_json(toolset);
  if (!json || !json->is_object()) return false;
  bool found = false;
  const auto apply = [&found](const Json& config) {
    if (!config.is_object()) return;
    const auto policy = config.find("permission_policy");
    if (policy != config.end() && policy->is_object())
      found = policy->contains("type") && policy->at("type") == "auto";
  };
  if (const auto usual = json->find("default_config"); usual != json->end()) apply(*usual);
  if (const auto own = json->find("configs"); own != json->end() && own->is_array())
    for (const Json& config : *own)
      if (config.is_object() && config.contains("name") && config["name"] == tool) apply(config);
  return found;
}

bool is_judged(const session::AgentSpec& agent, NamedTool tool) {
  if (tool.server.empty()) return std::ranges::find(agent.judged, tool.name) != agent.judged.end();
  const auto server = std::ranges::find(agent.servers, tool.server, &session::ServerGrant::name);
  return server != agent.servers.end() && is_auto(server->toolset, tool.name);
}

}  // namespace

void add_evaluation(Json& event, const session::AgentSpec& agent, NamedTool tool, bool asks) {
  event["evaluated_permission"] = asks ? "ask" : "allow";
  if (!is_judged(agent, tool)) {
    event["evaluation"] = {{"type", asks ? "always_ask" : "always_allow"}};
    return;
  }
  Json judgement = {{"type", asks ? "ask" : "allow"}};
  if (asks) judgement["reason_code"] = "indeterminate";
  event["evaluation"] = {{"type", "auto"}, {"evaluated_permission", std::move(judgement)}};
}

void add_refusal(Json& event) {
  event["evaluated_permission"] = "deny";
}

}  // namespace pons::managed
