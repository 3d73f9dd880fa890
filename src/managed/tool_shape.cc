#include "tool_shape.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/text.h"

namespace pons::managed {

namespace {

constexpr std::size_t kToolsMax = 256;
constexpr std::size_t kServersMax = 20;
constexpr std::size_t kSchemaBytesMax = 64 << 10;
constexpr TextLimits kToolName{.min = 1, .max = 128};
constexpr TextLimits kServerName{.min = 1, .max = 255};
constexpr std::array<std::string_view, 8> kBuiltIn = {"bash", "edit", "read",      "write",
                                                      "glob", "grep", "web_fetch", "web_search"};

Json policy_named(std::string_view word) {
  return {{"type", word}};
}

Result<Json> policy_or(const JsonPlace& place, Json otherwise) {
  if (!has_value(place, "permission_policy")) return otherwise;
  const JsonPlace policy = place.at("permission_policy");
  TRY_VOID(policy.expect_object({"type"}));
  return policy_named(TRY(type_of(policy, {"always_allow", "always_ask", "auto"})));
}

Result<Json> read_default(const JsonPlace& place, std::string_view usual_policy) {
  Json defaults = {{"enabled", true}, {"permission_policy", policy_named(usual_policy)}};
  if (!has_value(place, "default_config")) return defaults;
  const JsonPlace given = place.at("default_config");
  TRY_VOID(given.expect_object({"enabled", "permission_policy"}));
  defaults["enabled"] = TRY(flag_or(given, "enabled", true));
  defaults["permission_policy"] = TRY(policy_or(given, defaults["permission_policy"]));
  return defaults;
}

// Hosts without scheme and port; those of a search may have a path.
Result<void> read_domains(const JsonPlace& place, Json& config) {
  constexpr std::size_t kDomainsMax = 64;
  if (has_value(place, "allowed_domains") && has_value(place, "blocked_domains"))
    return place.refuse("has both \"allowed_domains\" and \"blocked_domains\"");
  for (const char* key : {"allowed_domains", "blocked_domains"}) {
    if (!has_value(place, key)) continue;
    const auto hosts = TRY(text_list(place, key, kDomainsMax, {.min = 1, .max = 253}));
    if (hosts.empty()) return place.at(key).refuse("is empty");
    for (const std::string& host : hosts)
      if (host.find_first_of(config["name"] == "web_search" ? ": " : ":/ ") != std::string::npos)
        return place.at(key).refuse(fmt::format("\"{}\" is no bare host name", host));
    config[key] = hosts;
  }
  return {};
}

// Where addresses come from is not looked at here, so that none of them can be kept from a page.
Result<Json> read_url_sources(const JsonPlace& place) {
  if (!has_value(place, "url_sources")) return Json(nullptr);
  const JsonPlace given = place.at("url_sources");
  TRY_VOID(given.expect_object({"user_input", "client_tool_results", "server_tool_results"}));
  Json sources = Json::object();
  for (const char* key : {"user_input", "client_tool_results", "server_tool_results"}) {
    sources[key] = nullptr;
    if (!has_value(given, key)) continue;
    const JsonPlace source = given.at(key);
    const std::string kind =
        source.value.is_string() ? TRY(source.text()) : TRY(type_of(source, {"all", "none"}));
    if (kind != "all") return source.refuse("only \"all\" is supported: every source counts");
    sources[key] = {{"type", "all"}};
  }
  return sources;
}

Result<Json> read_location(const JsonPlace& place) {
  if (!has_value(place, "user_location")) return Json(nullptr);
  const JsonPlace given = place.at("user_location");
  TRY_VOID(given.expect_object({"type", "city", "region", "country", "timezone"}));
  TRY(type_of(given, {"approximate"}));
  Json location = {{"type", "approximate"}};
  for (const char* key : {"city", "region", "country", "timezone"})
    location[key] = or_null(TRY(optional_text(given, key, {.max = 256})));
  return location;
}

Result<Json> read_built_in(const JsonPlace& place, const Json& defaults) {
  const std::string name = TRY(needed_text(place, "name", kToolName));
  if (std::ranges::find(kBuiltIn, name) == kBuiltIn.end())
    return place.at("name").refuse(fmt::format("must be one of {}", fmt::join(kBuiltIn, ", ")));
  const bool is_web = name == "web_fetch" || name == "web_search";
  if (name == "web_fetch")
    TRY_VOID(place.expect_object({"type", "name", "enabled", "permission_policy", "allowed_domains",
                                  "blocked_domains", "max_content_tokens", "url_sources"}));
  else if (is_web)
    TRY_VOID(place.expect_object({"type", "name", "enabled", "permission_policy", "allowed_domains",
                                  "blocked_domains", "user_location"}));
  else
    TRY_VOID(place.expect_object({"type", "name", "enabled", "permission_policy"}));
  Json config = {{"type", name},
                 {"name", name},
                 {"enabled", TRY(flag_or(place, "enabled", defaults["enabled"].get<bool>()))},
                 {"permission_policy", TRY(policy_or(place, defaults["permission_policy"]))}};
  if (is_web) TRY_VOID(read_domains(place, config));
  if (name == "web_fetch") {
    config["url_sources"] = TRY(read_url_sources(place));
    if (has_value(place, "max_content_tokens"))
      config["max_content_tokens"] = TRY(place.at("max_content_tokens").number(1, 1'000'000));
  }
  if (name == "web_search") config["user_location"] = TRY(read_location(place));
  return config;
}

Result<Json> read_mcp_tool(const JsonPlace& place, const Json& defaults) {
  TRY_VOID(place.expect_object({"name", "enabled", "permission_policy"}));
  return Json{{"name", TRY(needed_text(place, "name", kToolName))},
              {"enabled", TRY(flag_or(place, "enabled", defaults["enabled"].get<bool>()))},
              {"permission_policy", TRY(policy_or(place, defaults["permission_policy"]))}};
}

using ReadConfig = Result<Json> (*)(const JsonPlace&, const Json&);

Result<Json> read_configs(const JsonPlace& place, const Json& defaults, ReadConfig read) {
  Json configs = Json::array();
  if (!has_value(place, "configs")) return configs;
  const JsonPlace list = place.at("configs");
  TRY_VOID(list.expect_list(kToolsMax));
  std::set<std::string> names;
  for (std::size_t i = 0; i < list.value.size(); ++i) {
    if (!list.at(i).value.is_object()) return list.at(i).refuse("must be an object");
    Json config = TRY(read(list.at(i), defaults));
    if (!names.insert(config["name"].get<std::string>()).second)
      return list.at(i).refuse("names a tool for the second time");
    configs.push_back(std::move(config));
  }
  return configs;
}

Result<Json> read_custom(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"type", "name", "description", "input_schema"}));
  const std::string name = TRY(needed_text(place, "name", kToolName));
  if (!is_id_text(name)) return place.at("name").refuse("may hold letters, digits, - and _ only");
  if (!has_value(place, "input_schema")) return place.refuse("\"input_schema\" is missing");
  const JsonPlace schema = place.at("input_schema");
  if (!schema.value.is_object() || schema.value.value("type", "") != "object")
    return schema.refuse("must be a JSON schema whose type is \"object\"");
  if (dump_json(schema.value).size() > kSchemaBytesMax)
    return schema.refuse(fmt::format("is longer than {}", human_bytes(kSchemaBytesMax)));
  return Json{{"type", "custom"},
              {"name", name},
              {"description", TRY(needed_text(place, "description", {.min = 1, .max = 10'000}))},
              {"input_schema", schema.value}};
}

Result<Json> read_tool(const JsonPlace& place) {
  const std::string type = TRY(type_of(place, {"agent_toolset_20260401", "mcp_toolset", "custom"}));
  if (type == "custom") return read_custom(place);
  const bool is_mcp = type == "mcp_toolset";
  Json tool = {{"type", type}};
  if (is_mcp) {
    TRY_VOID(place.expect_object({"type", "mcp_server_name", "default_config", "configs"}));
    tool["mcp_server_name"] = TRY(needed_text(place, "mcp_server_name", kServerName));
  } else {
    TRY_VOID(place.expect_object({"type", "default_config", "configs"}));
  }
  tool["default_config"] = TRY(read_default(place, is_mcp ? "always_ask" : "always_allow"));
  tool["configs"] =
      TRY(read_configs(place, tool["default_config"], is_mcp ? read_mcp_tool : read_built_in));
  return tool;
}

// What two tools of an agent must not share: their name, their kind or their server.
std::string identity_of(const Json& tool) {
  const auto type = tool["type"].get<std::string>();
  if (type == "custom") return "tool " + tool["name"].get<std::string>();
  return type == "mcp_toolset" ? type + " of " + tool["mcp_server_name"].get<std::string>() : type;
}

}  // namespace

Result<Json> read_tools(const JsonPlace& place) {
  TRY_VOID(place.expect_list(kToolsMax));
  Json tools = Json::array();
  std::set<std::string> seen;
  for (std::size_t i = 0; i < place.value.size(); ++i) {
    Json tool = TRY(read_tool(place.at(i)));
    const std::string identity = identity_of(tool);
    const bool is_built_in =
        tool["type"] == "custom" &&
        std::ranges::find(kBuiltIn, tool["name"].get<std::string>()) != kBuiltIn.end();
    if (is_built_in || !seen.insert(identity).second)
      return place.at(i).refuse(is_built_in ? "has the name of a built-in tool"
                                            : fmt::format("there is a second {}", identity));
    tools.push_back(std::move(tool));
  }
  return tools;
}

Result<Json> read_mcp_servers(const JsonPlace& place) {
  TRY_VOID(place.expect_list(kServersMax));
  Json servers = Json::array();
  std::set<std::string> names;
  for (std::size_t i = 0; i < place.value.size(); ++i) {
    const JsonPlace server = place.at(i);
    TRY(type_of(server, {"url"}));
    TRY_VOID(server.expect_object({"type", "name", "url"}));
    const std::string name = TRY(needed_text(server, "name", kServerName));
    const std::string url = TRY(needed_text(server, "url", {.min = 1, .max = 2'048}));
    if (!url.starts_with("https://") && !url.starts_with("http://"))
      return server.at("url").refuse("must begin with https://");
    if (!names.insert(name).second) return server.refuse("has the name of another server");
    servers.push_back({{"type", "url"}, {"name", name}, {"url", url}});
  }
  return servers;
}

Result<void> check_servers_are_used(const JsonPlace& place, const Json& tools,
                                    const Json& servers) {
  std::set<std::string> used;
  for (const Json& tool : tools)
    if (tool["type"] == "mcp_toolset") used.insert(tool["mcp_server_name"].get<std::string>());
  for (const Json& server : servers)
    if (used.erase(server["name"].get<std::string>()) == 0)
      return place.refuse(fmt::format("the MCP server \"{}\" is in no mcp_toolset of tools",
                                      server["name"].get<std::string>()));
  if (!used.empty())
    return place.refuse(fmt::format("tools name the MCP server \"{}\", which is not in mcp_servers",
                                    *used.begin()));
  return {};
}

}  // namespace pons::managed
