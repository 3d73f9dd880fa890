#include "services.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "pons/base/check.h"

// NOLINTBEGIN(readability-identifier-naming): symbols of services.S
extern "C" {
extern const char pons_vault_services_begin[];
extern const char pons_vault_services_end[];
}
// NOLINTEND(readability-identifier-naming)

namespace pons::vault {

namespace {

Services read_services() {
  const auto json =
      parse_json(std::string_view(pons_vault_services_begin, pons_vault_services_end));
  CHECK(json.has_value());
  Services all;
  for (const auto& [name, bindings] : json->at("presets").items())
    all.presets[name] = dump_json(bindings);
  all.credential_parameters = json->at("credential_parameters").get<Services::NamesByHost>();
  all.query_parameters = json->at("query_parameters").get<Services::NamesByHost>();
  all.prefixes = json->at("prefixes").get<std::vector<std::string>>();
  std::ranges::sort(all.prefixes, std::greater(), &std::string::size);
  all.shared_suffixes = json->at("shared_suffixes").get<std::vector<std::string>>();
  all.shared_domains = json->at("shared_domains").get<std::vector<std::string>>();
  all.placeholder_words = json->at("placeholder_words").get<std::vector<std::string>>();
  return all;
}

}  // namespace

const Services& services() {
  static const Services kAll = read_services();
  return kAll;
}

}  // namespace pons::vault
