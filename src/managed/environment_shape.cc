#include "environment_shape.h"

#include <array>

#include <fmt/format.h>

#include "package_name.h"
#include "pons/base/text.h"
#include "pons/managed/package_set.h"

namespace pons::managed {

namespace {

constexpr TextLimits kName{.min = 1, .max = 256};
constexpr TextLimits kDescription{.max = 4'096};
constexpr std::array<const char*, 6> kManagers = {"apt", "cargo", "gem", "go", "npm", "pip"};
constexpr std::size_t kHostsMax = 256;
constexpr std::size_t kPackagesMax = 200;

Json no_packages() {
  Json packages = {{"type", "packages"}};
  for (const char* manager : kManagers) packages[manager] = Json::array();
  return packages;
}

// A name, or "*." and a name. What egress makes of it is egress' to say; this keeps out what can
// never be one.
Result<void> check_host(const JsonPlace& place, const std::string& host) {
  const bool is_plain = host.find_first_not_of(
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._*") ==
                        std::string::npos;
  if (!is_plain || host.find('*', 1) != std::string::npos ||
      (host.front() == '*' && !host.starts_with("*.")))
    return place.refuse(fmt::format(
        "\"{}\" is no host: a name, or *. and a name, without scheme, port and path", host));
  return {};
}

// What an update leaves out stays as it was BEFORE, where that was limited, too.
Result<Json> read_networking(const Json& before, const JsonPlace& place) {
  if (TRY(type_of(place, {"unrestricted", "limited"})) == "unrestricted") {
    TRY_VOID(place.expect_object({"type"}));
    return Json{{"type", "unrestricted"}};
  }
  TRY_VOID(place.expect_object(
      {"type", "allowed_hosts", "allow_mcp_servers", "allow_package_managers"}));
  Json after = {{"type", "limited"},
                {"allowed_hosts", Json::array()},
                {"allow_mcp_servers", false},
                {"allow_package_managers", false}};
  if (before.value("type", "") == "limited") after = before;
  if (place.has("allowed_hosts")) {
    const auto hosts = TRY(text_list(place, "allowed_hosts", kHostsMax, {.min = 1, .max = 253}));
    for (const std::string& host : hosts) TRY_VOID(check_host(place.at("allowed_hosts"), host));
    after["allowed_hosts"] = hosts;
  }
  for (const char* flag : {"allow_mcp_servers", "allow_package_managers"})
    if (place.has(flag)) after[flag] = TRY(flag_or(place, flag, false));
  return after;
}

Result<Json> read_packages(const JsonPlace& place, Json packages) {
  TRY_VOID(place.expect_object({"type", "apt", "cargo", "gem", "go", "npm", "pip"}));
  TRY(optional_word(place, "type", {"packages"}));
  for (const char* manager : kManagers) {
    if (!place.has(manager)) continue;
    const auto names =
        TRY(text_list(place, manager, kPackagesMax, {.min = 1, .max = kPackageBytesMax}));
    for (const std::string& name : names)
      if (!is_package(manager, name))
        return place.at(manager).refuse(fmt::format("\"{}\" is no package of {}", name, manager));
    packages[manager] = names;
  }
  return packages;
}

bool has_packages(const Json& packages) {
  for (const char* manager : kManagers)
    if (!packages.at(manager).empty()) return true;
  return false;
}

Result<Json> read_config(const Json& before, const JsonPlace& place) {
  const std::string type = TRY(type_of(place, {"cloud", "self_hosted"}));
  if (type == "self_hosted") {
    TRY_VOID(place.expect_object({"type"}));
    return Json{{"type", "self_hosted"}};
  }
  TRY_VOID(place.expect_object({"type", "networking", "packages"}));
  Json config = before;
  if (has_value(place, "networking"))
    config["networking"] = TRY(read_networking(before["networking"], place.at("networking")));
  if (has_value(place, "packages"))
    config["packages"] = TRY(read_packages(place.at("packages"), before["packages"]));
  const Json& networking = config["networking"];
  if (networking["type"] == "limited" && !networking["allow_package_managers"].get<bool>() &&
      has_packages(config["packages"]))
    return place.refuse("packages under limited networking need allow_package_managers");
  return config;
}

// Templates of a project's own are nobody else's, and those that packages were put into have no
// name that anybody chooses.
Result<void> check_template(const Json& metadata, const JsonPlace& place) {
  const auto name = metadata.find(kTemplateKey);
  if (name == metadata.end()) return {};
  const auto& text = name->get_ref<const std::string&>();
  constexpr std::size_t kNameMax = 64;
  const bool is_name =
      text.size() <= kNameMax &&
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == std::string::npos &&
      text.front() != '.' && text.front() != '-';
  if (is_name && !text.starts_with("own.") && !text.starts_with("packages.")) return {};
  return place.refuse(fmt::format("\"{}\" names no template of this machine", kTemplateKey));
}

Json cloud_config() {
  return {
      {"type", "cloud"}, {"networking", {{"type", "unrestricted"}}}, {"packages", no_packages()}};
}

}  // namespace

Result<Json> read_new_environment(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  if (!has_value(place, "name")) return place.refuse("\"name\" is missing");
  return read_changed_environment({{"name", nullptr},
                                   {"description", nullptr},
                                   {"config", cloud_config()},
                                   {"metadata", Json::object()},
                                   {"scope", "organization"}},
                                  body);
}

Result<Json> read_changed_environment(const Json& before, const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"name", "description", "config", "metadata", "scope"}));
  Json after = before;
  if (has_value(place, "name")) after["name"] = TRY(needed_text(place, "name", kName));
  if (place.has("description"))
    after["description"] = or_null(TRY(optional_text(place, "description", kDescription)));
  if (has_value(place, "config"))
    after["config"] = TRY(read_config(before.at("config"), place.at("config")));
  after["metadata"] =
      TRY(patch_metadata(before.at("metadata"), place, "metadata", EmptyValue::kDeletes));
  TRY_VOID(check_template(after["metadata"], place));
  if (const auto scope = TRY(optional_word(place, "scope", {"organization", "account"})))
    after["scope"] = *scope;
  return after;
}

namespace {

// One wrong rule would make the whole policy wrong. What is no name of a host gets none, and so is
// not reached.
bool is_name(std::string_view host) {
  const bool is_plain =
      host.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") ==
      std::string_view::npos;
  const std::size_t dot = host.rfind('.');
  if (!is_plain || dot == std::string_view::npos || dot + 1 == host.size()) return false;
  const char first_of_last = host[dot + 1];
  const bool is_address = first_of_last >= '0' && first_of_last <= '9';
  return !is_address && !host.ends_with(".localhost") && !host.ends_with("pons.internal");
}

// "https://host:port/path" as a rule for that host and port; null: it is none.
Json rule_for(const std::string& url) {
  const bool is_tls = url.starts_with("https://");
  std::string_view rest = std::string_view(url).substr(url.find("://") + 3);
  rest = rest.substr(0, rest.find_first_of("/?#"));
  std::uint64_t port = is_tls ? 443 : 80;
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos) {
    port = parse_decimal(rest.substr(colon + 1)).value_or(port);
    rest = rest.substr(0, colon);
  }
  if (!is_name(rest) || port == 0 || port > 65'535) return nullptr;
  return {{"host", rest}, {"ports", {port}}};
}

// Null: they have none.
Json policy_of(const Json& config, const Json& mcp_servers) {
  const Json everything = {{"mode", "public"}};
  // The machine is elsewhere; servers are asked from here.
  if (config.at("type") != "cloud") return mcp_servers.empty() ? Json(nullptr) : everything;
  const Json& networking = config.at("networking");
  if (networking.at("type") == "unrestricted") return everything;
  Json policy = {{"mode", "list"}, {"allow", Json::array()}};
  for (const Json& host : networking.at("allowed_hosts"))
    policy["allow"].push_back({{"host", host}});
  if (networking.at("allow_mcp_servers").get<bool>())
    for (const Json& server : mcp_servers)
      if (Json rule = rule_for(server.at("url").get<std::string>()); !rule.is_null())
        policy["allow"].push_back(std::move(rule));
  if (networking.at("allow_package_managers").get<bool>()) policy["packages"] = "all";
  if (policy["allow"].empty() && !policy.contains("packages")) return nullptr;
  return policy;
}

}  // namespace

std::string network_policy_of(const Json& environment, const Json& mcp_servers) {
  Json policy = policy_of(environment.at("config"), mcp_servers);
  if (const auto vaults = environment.find("vaults"); vaults != environment.end()) {
    if (policy.is_null()) policy = {{"mode", "none"}};
    policy.update(*vaults);
  }
  return policy.is_null() ? std::string() : dump_json(policy);
}

void add_vaults(const std::string& project, const Json& vault_ids, Json& environment) {
  if (!vault_ids.empty()) environment["vaults"] = {{"project", project}, {"vaults", vault_ids}};
}

}  // namespace pons::managed
