#include "server_tools.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "pons/base/json.h"
#include "pons/base/text.h"

namespace pons::brain {

namespace {

using session::ServerFault;
using session::ServerTool;
using session::ServerTrouble;

constexpr std::size_t kAliasBytesMax = 64;
constexpr std::size_t kNamesTold = 8;
// It travels in a field of a request.
constexpr std::size_t kPolicyBytesMax = 8 << 10;

std::string plain(std::string_view text) {
  std::string word;
  for (const char c : text) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    word += is_plain ? c : '_';
  }
  return word;
}

std::string some_of(const std::vector<std::string>& names) {
  const std::size_t told = std::min(names.size(), kNamesTold);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + told, ", "));
  if (told < names.size()) text += fmt::format(" and {} more", names.size() - told);
  return text;
}

// "host" of "https://host:port/path".
std::string_view host_in(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  if (url.starts_with('[')) return url.substr(0, url.find(']') + 1);
  return url.substr(0, url.find(':'));
}

// One label in place of the star, as egress reads it.
bool covers(std::string_view pattern, std::string_view host) {
  if (!pattern.starts_with("*.")) return equal_ignoring_case(pattern, host);
  const std::size_t dot = host.find('.');
  return dot != std::string_view::npos &&
         equal_ignoring_case(pattern.substr(2), host.substr(dot + 1));
}

}  // namespace

ToolRule rule_of(std::string_view toolset, std::string_view tool) {
  ToolRule rule;
  const Json json = parse_json(toolset).value_or(Json::object());
  const auto apply = [&rule](const Json& config) {
    if (!config.is_object()) return;
    if (const auto on = config.find("enabled"); on != config.end() && on->is_boolean())
      rule.enabled = on->get<bool>();
    const auto policy = config.find("permission_policy");
    if (policy != config.end() && policy->is_object())
      rule.asks = policy->value("type", "always_ask") != "always_allow";
  };
  if (!json.is_object()) return rule;
  if (const auto usual = json.find("default_config"); usual != json.end()) apply(*usual);
  if (const auto own = json.find("configs"); own != json.end() && own->is_array())
    for (const Json& config : *own)
      if (config.is_object() && config.value("name", "") == tool) apply(config);
  return rule;
}

std::string alias_for(std::string_view server, std::string_view tool,
                      const std::vector<ServerTool>& taken) {
  const auto is_free = [&](std::string_view alias) {
    return std::ranges::find(taken, alias, &ServerTool::alias) == taken.end();
  };
  std::string alias = fmt::format("{}__{}", plain(server), plain(tool));
  if (alias.size() <= kAliasBytesMax && is_free(alias)) return alias;
  // Told apart by what both are really called.
  constexpr std::size_t kDigits = 8;
  const std::string mark = "_" + sha256_hex(fmt::format("{}\n{}", server, tool)).substr(0, kDigits);
  alias.resize(std::min(alias.size(), kAliasBytesMax - mark.size()));
  return alias + mark;
}

void add_server_tools(const session::ServerGrant& server, const mcp::ToolList& list,
                      const mcp::ToolPins& pins, std::vector<ServerTool>& tools,
                      std::vector<ServerTrouble>& troubles) {
  const auto tell = [&](std::string message) {
    troubles.push_back(
        {.server = server.name, .fault = ServerFault::kTools, .message = std::move(message)});
  };
  std::size_t bytes = 0;
  for (const ServerTool& tool : tools) bytes += tool.definition.size();
  std::vector<std::string> unknown;
  std::vector<std::string> too_many;
  for (const mcp::RemoteTool& tool : list.tools) {
    const ToolRule rule = rule_of(server.toolset, tool.name);
    if (!rule.enabled) continue;
    if (pins.standing_of(tool) != mcp::ToolPins::Standing::kAccepted) {
      unknown.push_back(tool.name);
      continue;
    }
    ServerTool made{.server = server.name,
                    .name = tool.name,
                    .alias = alias_for(server.name, tool.name, tools),
                    .asks = rule.asks};
    made.definition =
        dump_json({{"name", made.alias},
                   {"description", tool.description},
                   {"input_schema", parse_json(tool.input_schema).value_or(Json::object())}});
    bytes += made.definition.size();
    if (tools.size() >= kServerToolsMax || bytes > kDefinitionBytesMax) {
      bytes -= made.definition.size();
      too_many.push_back(tool.name);
      continue;
    }
    tools.push_back(std::move(made));
  }
  if (!unknown.empty())
    tell(
        fmt::format("tools that are new, or not as they were accepted, are not used: {}; "
                    "`pons mcp pins show {}` shows them, and `pons mcp pins accept` accepts them",
                    some_of(unknown), server.url));
  if (!too_many.empty())
    tell(fmt::format("a session has at most {} tools of servers, of {} in all; left out: {}",
                     kServerToolsMax, human_bytes(kDefinitionBytesMax), some_of(too_many)));
  std::vector<std::string> wrong;
  for (const mcp::RefusedTool& tool : list.refused)
    wrong.push_back(fmt::format("{} ({})", tool.name, tool.why));
  if (!wrong.empty())
    tell(fmt::format("tools that cannot be used are left out: {}", some_of(wrong)));
}

std::string vaults_in(std::string_view network) {
  const Json policy = parse_json(network).value_or(Json::object());
  std::string ids;
  if (!policy.is_object() || !policy.contains("vaults") || !policy.at("vaults").is_array())
    return ids;
  for (const Json& id : policy.at("vaults"))
    if (id.is_string() && is_id_text(id.get_ref<const std::string&>()))
      ids += (ids.empty() ? "" : ",") + id.get<std::string>();
  return ids;
}

Result<std::string> policy_toward(std::string_view network, std::string_view url,
                                  std::string_view credential) {
  const auto wrong = [](const char* why) {
    return make_error(ErrorCode::kInvalid, "read policy", why);
  };
  const Json policy = TRY(parse_json(network));
  if (!policy.is_object()) return wrong("the network of the agent is no policy");
  const std::string_view host = host_in(url);
  Json narrow = {{"mode", policy.value("mode", "none")}};
  for (const char* key : {"allow", "deny"}) {
    const auto rules = policy.find(key);
    if (rules == policy.end() || !rules->is_array()) continue;
    Json kept = Json::array();
    for (const Json& rule : *rules) {
      const Json& named = rule.is_object() && rule.contains("host") ? rule.at("host") : rule;
      // Those that deny are few, and cover what no comparison here would see.
      if (std::string_view(key) == "deny" ||
          (named.is_string() && covers(named.get_ref<const std::string&>(), host)))
        kept.push_back(rule);
    }
    narrow[key] = std::move(kept);
  }
  if (!credential.empty()) narrow["credentials"] = {std::string(credential)};
  std::string text = dump_json(narrow);
  if (text.size() > kPolicyBytesMax) return wrong("the network of the agent has too many rules");
  return text;
}

}  // namespace pons::brain
