#include "environment_shape.h"

#include <array>

#include <fmt/format.h>

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

Result<Json> read_networking(const JsonPlace& place) {
  if (TRY(type_of(place, {"unrestricted", "limited"})) == "unrestricted") {
    TRY_VOID(place.expect_object({"type"}));
    return Json{{"type", "unrestricted"}};
  }
  TRY_VOID(place.expect_object(
      {"type", "allowed_hosts", "allow_mcp_servers", "allow_package_managers"}));
  const auto hosts = TRY(text_list(place, "allowed_hosts", kHostsMax, {.min = 1, .max = 253}));
  for (const std::string& host : hosts) TRY_VOID(check_host(place.at("allowed_hosts"), host));
  return Json{{"type", "limited"},
              {"allowed_hosts", hosts},
              {"allow_mcp_servers", TRY(flag_or(place, "allow_mcp_servers", false))},
              {"allow_package_managers", TRY(flag_or(place, "allow_package_managers", false))}};
}

// Names and versions end up as words of a shell's command; nothing in them may be more than that.
Result<Json> read_packages(const JsonPlace& place, Json packages) {
  TRY_VOID(place.expect_object({"type", "apt", "cargo", "gem", "go", "npm", "pip"}));
  TRY(optional_word(place, "type", {"packages"}));
  for (const char* manager : kManagers) {
    if (!place.has(manager)) continue;
    const auto names = TRY(text_list(place, manager, kPackagesMax, {.min = 1, .max = 200}));
    for (const std::string& name : names) {
      const bool is_plain = name.front() != '-' &&
                            name.find_first_not_of(
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-._+@/:=<>~!^,[]") == std::string::npos;
      if (!is_plain)
        return place.at(manager).refuse(fmt::format("\"{}\" is no name of a package", name));
    }
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
    config["networking"] = TRY(read_networking(place.at("networking")));
  if (has_value(place, "packages"))
    config["packages"] = TRY(read_packages(place.at("packages"), no_packages()));
  const Json& networking = config["networking"];
  if (networking["type"] == "limited" && !networking["allow_package_managers"].get<bool>() &&
      has_packages(config["packages"]))
    return place.refuse("packages under limited networking need allow_package_managers");
  return config;
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
  if (const auto scope = TRY(optional_word(place, "scope", {"organization", "account"})))
    after["scope"] = *scope;
  return after;
}

namespace {

// Null: they have none.
Json policy_of(const Json& networking) {
  if (networking.at("type") == "unrestricted") return {{"mode", "public"}};
  Json policy = {{"mode", "list"}, {"allow", Json::array()}};
  for (const Json& host : networking.at("allowed_hosts"))
    policy["allow"].push_back({{"host", host}});
  if (networking.at("allow_package_managers").get<bool>())
    policy["packages"] = {"apt", "npm", "pip", "cargo"};
  if (policy["allow"].empty() && !policy.contains("packages")) return nullptr;
  return policy;
}

}  // namespace

std::string network_policy_of(const Json& environment) {
  const Json& config = environment.at("config");
  if (config.at("type") != "cloud") return {};
  Json policy = policy_of(config.at("networking"));
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
