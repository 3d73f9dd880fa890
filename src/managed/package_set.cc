#include "pons/managed/package_set.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "package_name.h"
#include "pons/base/text.h"

namespace pons::managed {

namespace {

constexpr std::string_view kPrefix = "packages.";
constexpr std::size_t kDigestDigits = 40;  // a sandbox's id and a template's name hold it whole
constexpr const char* kUsualTemplate = "host";

Json packages_json(const PackageSet& set) {
  Json packages = Json::object();
  for (const PackageSet::Part& part : set.parts) packages[part.manager] = part.names;
  return packages;
}

std::vector<PackageSet::Part> parts_of(const Json& packages) {
  std::vector<PackageSet::Part> parts;
  for (const std::string_view manager : kPackageManagers) {
    const auto found = packages.find(manager);
    if (found == packages.end() || found->empty()) continue;
    PackageSet::Part part{.manager = std::string(manager),
                          .names = found->get<std::vector<std::string>>()};
    std::ranges::sort(part.names);
    const auto repeated = std::ranges::unique(part.names);
    part.names.erase(repeated.begin(), repeated.end());
    parts.push_back(std::move(part));
  }
  return parts;
}

std::string base_of(const Json& environment) {
  const auto metadata = environment.find("metadata");
  if (metadata == environment.end()) return kUsualTemplate;
  return metadata->value(kTemplateKey, kUsualTemplate);
}

}  // namespace

std::string PackageSet::recipe() const {
  return dump_json({{"base", base}, {"packages", packages_json(*this)}});
}

std::string PackageSet::digest() const {
  return sha256_hex(recipe()).substr(0, kDigestDigits);
}

Result<PackageSet> read_recipe(std::string_view recipe) {
  const Json json = TRY(parse_json(recipe));
  const auto wrong = make_error(ErrorCode::kInternal, "read packages", "not a set of packages");
  if (!json.is_object() || !json.contains("base") || !json.at("base").is_string() ||
      !json.contains("packages") || !json.at("packages").is_object())
    return wrong;
  for (const auto& [manager, names] : json.at("packages").items()) {
    if (!names.is_array()) return wrong;
    for (const Json& name : names)
      if (!name.is_string() || !is_package(manager, name.get_ref<const std::string&>()))
        return wrong;
  }
  return PackageSet{.base = json.at("base"), .parts = parts_of(json.at("packages"))};
}

std::optional<PackageSet> package_set_of(const Json& environment) {
  const Json& config = environment.at("config");
  if (config.at("type") != "cloud") return std::nullopt;
  PackageSet set{.base = base_of(environment), .parts = parts_of(config.at("packages"))};
  if (set.parts.empty()) return std::nullopt;
  return set;
}

std::string template_of(const Json& environment) {
  if (const auto set = package_set_of(environment)) return package_template(set->digest());
  return base_of(environment);
}

std::string package_template(std::string_view digest) {
  return fmt::format("{}{}", kPrefix, digest);
}

std::string_view digest_in(std::string_view template_name) {
  if (!template_name.starts_with(kPrefix)) return {};
  // Others may lie on top of it.
  const std::string_view digest =
      template_name.substr(0, template_name.find('+')).substr(kPrefix.size());
  const bool is_digest = digest.size() == kDigestDigits &&
                         digest.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return is_digest ? digest : std::string_view();
}

}  // namespace pons::managed
