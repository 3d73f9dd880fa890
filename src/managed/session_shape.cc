#include "session_shape.h"

#include <algorithm>

#include <fmt/format.h>

#include "environment_shape.h"
#include "multiagent_shape.h"
#include "pons/managed/package_set.h"
#include "pons/session/machine_tools.h"
#include "pons/session/tools.h"

namespace pons::managed {

namespace {

using session::Status;

// Looking is harmless; what changes something is not decided by itself.
bool must_ask(const Json& policy, std::string_view tool) {
  if (policy["type"] == "always_ask") return true;
  const bool only_looks = tool == "read" || tool == "glob" || tool == "grep";
  return policy["type"] == "auto" && !only_looks;
}

session::WebRules rules_of(const Json& config) {
  session::WebRules rules;
  const auto hosts = [&](const char* key, std::vector<std::string>& list) {
    if (const auto found = config.find(key); found != config.end())
      for (const Json& host : *found) list.push_back(host.get<std::string>());
  };
  hosts("allowed_domains", rules.allowed);
  hosts("blocked_domains", rules.blocked);
  rules.tokens_max = config.value("max_content_tokens", std::int64_t{0});
  return rules;
}

void add_built_in(const Json& toolset, session::AgentSpec& spec) {
  for (const session::MachineTool& tool : session::machine_tools()) {
    const Json* config = &toolset.at("default_config");
    for (const Json& own : toolset.at("configs"))
      if (own["name"] == tool.name) config = &own;
    if (!(*config)["enabled"].get<bool>()) continue;
    spec.tools.emplace_back(tool.name);
    if (tool.name == "web_fetch") spec.web = rules_of(*config);
    const Json& policy = (*config)["permission_policy"];
    if (must_ask(policy, tool.name)) spec.asks.emplace_back(tool.name);
    if (policy["type"] == "auto") spec.judged.emplace_back(tool.name);
  }
}

void add_custom(const Json& tool, session::AgentSpec& spec) {
  spec.custom.push_back({.name = tool["name"],
                         .definition = dump_json({{"name", tool["name"]},
                                                  {"description", tool["description"]},
                                                  {"input_schema", tool["input_schema"]}})});
}

// The server's address stands in one list of the agent, and what of it may be used in the other.
void add_server(const Json& toolset, const Json& servers, session::AgentSpec& spec) {
  for (const Json& server : servers)
    if (server.at("name") == toolset.at("mcp_server_name"))
      spec.servers.push_back(
          {.name = server.at("name"),
           .url = server.at("url"),
           .toolset = dump_json({{"default_config", toolset.at("default_config")},
                                 {"configs", toolset.at("configs")}})});
}

std::string text_or_empty(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace

session::AgentSpec spec_of(const Json& agent, const Json& environment) {
  session::AgentSpec spec;
  spec.name = agent.at("name");
  spec.model = agent.at("model").at("id");
  spec.system = text_or_empty(agent.at("system"));
  spec.network = network_policy_of(environment, agent.at("mcp_servers"));
  spec.sandbox_template = template_of(environment);
  spec.outside = environment.at("config").at("type") == "self_hosted";
  for (const Json& tool : agent.at("tools")) {
    if (tool["type"] == "agent_toolset_20260401") add_built_in(tool, spec);
    if (tool["type"] == "custom") add_custom(tool, spec);
    if (tool["type"] == "mcp_toolset") add_server(tool, agent.at("mcp_servers"), spec);
  }
  if (const auto multiagent = agent.find("multiagent"); multiagent != agent.end())
    add_members(*multiagent, environment, spec_of, spec);
  // An empty list would stand for the tools of an agent that says nothing of them.
  if (spec.tools.empty()) spec.tools.emplace_back(session::kNoTool);
  return spec;
}

Result<std::int64_t> read_budget(const JsonPlace& place) {
  TRY(type_of(place, {"limit"}));
  TRY_VOID(place.expect_object({"type", "max_list_cost"}));
  if (!has_value(place, "max_list_cost")) return place.refuse("\"max_list_cost\" is missing");
  return read_money(place.at("max_list_cost"));
}

const char* status_of(const session::Summary& summary) {
  if (summary.archived_ms) return "terminated";
  switch (summary.status) {
    case Status::kIdle:
    case Status::kWaitsForPerson:
    case Status::kWaitsInThread:
    case Status::kWaitsAtWork:
      return "idle";
    case Status::kRunning:
      return "running";
    case Status::kRescheduled:
      return "rescheduling";
  }
  return "idle";
}

Result<void> read_status(std::string_view word, OrderFilter& filter) {
  if (word == "idle")
    filter.statuses.insert(filter.statuses.end(),
                           {"idle", "waits_for_person", "waits_in_thread", "waits_at_work"});
  else if (word == "running")
    filter.statuses.emplace_back("running");
  else if (word == "rescheduling")
    filter.statuses.emplace_back("rescheduled");
  else if (word == "terminated")
    filter.terminated = true;
  else
    return make_error(ErrorCode::kInvalid, "read query",
                      fmt::format("statuses: \"{}\" is none of idle, running, rescheduling, "
                                  "terminated",
                                  word));
  return {};
}

Json show_usage(const session::Usage& used) {
  return {{"input_tokens", used.input},
          {"output_tokens", used.output},
          {"cache_read_input_tokens", used.cache_read},
          {"cache_creation", {{"ephemeral_5m_input_tokens", used.cache_write}}},
          {"list_cost", write_money(used.cost_nano)}};
}

Result<Json> show_session(const SessionOrder& order, const session::Summary& summary) {
  const Json said = TRY(parse_json(order.text));
  const auto budget_nano = said.at("budget_nano").get<std::int64_t>();
  Json budget = nullptr;
  if (budget_nano > 0) budget = {{"type", "limit"}, {"max_list_cost", write_money(budget_nano)}};
  const std::int64_t updated = std::max(order.updated_ms, summary.updated_ms);
  return Json{{"id", order.session},
              {"type", "session"},
              {"status", status_of(summary)},
              {"agent", said.at("agent")},
              {"environment_id", order.environment},
              {"title", said.at("title")},
              {"metadata", said.at("metadata")},
              {"resources", said.at("resources")},
              {"vault_ids", said.at("vault_ids")},
              {"outcome_evaluations", Json::array()},
              {"stats", {{"duration_seconds", (updated - order.created_ms) / 1000}}},
              {"usage", show_usage(summary.usage)},
              {"budget", std::move(budget)},
              {"deployment_id", order.deployment.empty() ? Json(nullptr) : Json(order.deployment)},
              {"created_at", write_time(order.created_ms)},
              {"updated_at", write_time(updated)},
              {"archived_at",
               summary.archived_ms ? Json(write_time(*summary.archived_ms)) : Json(nullptr)}};
}

}  // namespace pons::managed
