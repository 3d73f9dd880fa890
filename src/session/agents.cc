#include "pons/session/agents.h"

#include <algorithm>

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

// Which harnesses there are is known elsewhere.
Result<void> read_harness(const JsonPlace& place, AgentSpec& agent) {
  if (place.has("harness")) {
    agent.harness = TRY(place.at("harness").text());
    if (agent.harness == "native") agent.harness.clear();
  }
  if (!place.has("placement")) return {};
  const std::string where = TRY(place.at("placement").text());
  if (where != "brain" && where != "sandbox")
    return place.at("placement").refuse("must be brain or sandbox");
  agent.harness_in_machine = where == "sandbox";
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

// A name, or {"store": NAME, "access", "instructions"}.
Result<MemoryGrant> read_memory_grant(const JsonPlace& place) {
  constexpr std::size_t kNameBytesMax = 255;
  constexpr std::size_t kInstructionBytesMax = 4'096;
  MemoryGrant grant;
  if (place.value.is_string()) {
    grant.name = TRY(place.text());
  } else {
    TRY_VOID(place.expect_object({"store", "access", "instructions"}));
    if (!place.has("store")) return place.refuse("\"store\" is missing");
    grant.name = TRY(place.at("store").text());
    if (place.has("instructions")) grant.instructions = TRY(place.at("instructions").text());
    const std::string access = place.has("access") ? TRY(place.at("access").text()) : "read_write";
    if (access != "read_write" && access != "read_only")
      return place.at("access").refuse("must be read_write or read_only");
    grant.read_only = access == "read_only";
  }
  if (grant.name.empty() || grant.name.size() > kNameBytesMax)
    return place.refuse("a memory store has a name of at most 255 bytes");
  if (grant.instructions.size() > kInstructionBytesMax)
    return place.at("instructions").refuse("is longer than 4,096 bytes");
  return grant;
}

Result<void> read_memory(const JsonPlace& place, AgentSpec& agent) {
  constexpr std::size_t kStoresMax = 8;
  TRY_VOID(place.expect_list(kStoresMax));
  agent.memory.clear();
  for (std::size_t i = 0; i < place.value.size(); ++i) {
    MemoryGrant grant = TRY(read_memory_grant(place.at(i)));
    if (std::ranges::find(agent.memory, grant.name, &MemoryGrant::name) != agent.memory.end())
      return place.at(i).refuse("names a memory store for the second time");
    agent.memory.push_back(std::move(grant));
  }
  return {};
}

// As the Managed Agents API writes a toolset: each call is allowed by a person unless `allow` names
// the tool, and only `tools` are there when they are named.
Result<std::string> read_toolset(const JsonPlace& place) {
  constexpr std::size_t kToolsMax = 256;
  const auto config = [](const std::string& name, bool is_free) {
    return Json{{"name", name},
                {"enabled", true},
                {"permission_policy", {{"type", is_free ? "always_allow" : "always_ask"}}}};
  };
  Json configs = Json::array();
  std::vector<std::string> allowed;
  for (const char* key : {"allow", "tools"}) {
    if (!place.has(key)) continue;
    const JsonPlace list = place.at(key);
    TRY_VOID(list.expect_list(kToolsMax));
    for (std::size_t i = 0; i < list.value.size(); ++i) {
      std::string name = TRY(list.at(i).text());
      const bool is_free = std::string_view(key) == "allow";
      if (is_free) allowed.push_back(name);
      if (is_free || std::ranges::find(allowed, name) == allowed.end())
        configs.push_back(config(name, is_free));
    }
  }
  const bool all = !place.has("tools");
  return dump_json(
      {{"default_config", {{"enabled", all}, {"permission_policy", {{"type", "always_ask"}}}}},
       {"configs", std::move(configs)}});
}

Result<ServerGrant> read_server(const JsonPlace& place) {
  constexpr std::size_t kUrlBytesMax = 2'048;
  constexpr std::size_t kNameBytesMax = 255;
  TRY_VOID(place.expect_object({"name", "url", "credential", "tools", "allow"}));
  for (const char* key : {"name", "url"})
    if (!place.has(key)) return place.refuse(fmt::format("\"{}\" is missing", key));
  ServerGrant server{.name = TRY(place.at("name").text()), .url = TRY(place.at("url").text())};
  if (server.name.empty() || server.name.size() > kNameBytesMax)
    return place.at("name").refuse("must be 1 to 255 bytes");
  if ((!server.url.starts_with("https://") && !server.url.starts_with("http://")) ||
      server.url.size() > kUrlBytesMax)
    return place.at("url").refuse("must be written as https://host/path");
  if (place.has("credential")) server.credential = TRY(place.at("credential").text());
  server.toolset = TRY(read_toolset(place));
  return server;
}

Result<void> read_servers(const JsonPlace& place, AgentSpec& agent) {
  constexpr std::size_t kServersMax = 20;
  TRY_VOID(place.expect_list(kServersMax));
  agent.servers.clear();
  for (std::size_t i = 0; i < place.value.size(); ++i) {
    ServerGrant server = TRY(read_server(place.at(i)));
    if (std::ranges::find(agent.servers, server.name, &ServerGrant::name) != agent.servers.end())
      return place.at(i).refuse("has the name of another server");
    agent.servers.push_back(std::move(server));
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
                                "budget_tokens", "budget_microdollars", "checkpoints", "memory",
                                "mcp", "harness", "placement"}));
  agent.name = name;
  TRY_VOID(read_texts(place, agent));
  TRY_VOID(read_harness(place, agent));
  if (place.has("checkpoints")) agent.checkpoints = TRY(place.at("checkpoints").flag());
  if (place.has("tools")) TRY_VOID(read_tools(place.at("tools"), agent));
  if (place.has("memory")) TRY_VOID(read_memory(place.at("memory"), agent));
  if (place.has("mcp")) TRY_VOID(read_servers(place.at("mcp"), agent));
  if (!agent.servers.empty() && agent.environment.empty())
    return place.refuse("\"mcp\" needs an \"environment\", whose rules let the servers be reached");
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
    const std::map<std::string, std::string>& documents, const std::string& model,
    const std::string& harness) {
  constexpr const char* kDefault = "default";
  AgentSpec basis{.name = kDefault, .model = model};
  if (harness != "native") basis.harness = harness;
  if (const auto own = documents.find(kDefault); own != documents.end())
    basis = TRY(read_agent(kDefault, own->second, basis));
  std::map<std::string, AgentSpec> agents = {{kDefault, basis}};
  for (const auto& [name, document] : documents)
    if (name != kDefault) agents[name] = TRY(read_agent(name, document, basis));
  return agents;
}

}  // namespace pons::session
