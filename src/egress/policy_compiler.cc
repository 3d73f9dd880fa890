#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "embedded_data.h"
#include "judge.h"
#include "policy_rule.h"
#include "pons/base/check.h"
#include "pons/base/json_place.h"
#include "pons/base/text.h"
#include "pons/egress/policy.h"
#include "pons/http/head.h"
#include "pons/scan/needle_set.h"
#include "pons/vault/project_secrets.h"
#include "pons/vault/shared_suffix.h"

namespace pons::egress {

namespace {

using vault::is_shared_suffix;

constexpr std::size_t kDocumentBytesMax = 1 << 20;
constexpr std::size_t kDocumentDepthMax = 8;
constexpr std::size_t kRulesMax = 1024;
constexpr std::size_t kEntriesMax = 256;
constexpr std::uint64_t kConnectionsMax = 65'535;
constexpr std::string_view kWildcard = "*.";

enum class Purpose : std::uint8_t { kAllow, kDeny, kSetFields };

template <class Read>
auto read_list(const JsonPlace& place, std::size_t entries_max, Read read)
    -> Result<std::vector<typename std::invoke_result_t<Read, JsonPlace>::value_type>> {
  TRY_VOID(place.expect_list(entries_max));
  std::vector<typename std::invoke_result_t<Read, JsonPlace>::value_type> list;
  for (std::size_t i = 0; i < place.value.size(); ++i) list.push_back(TRY(read(place.at(i))));
  return list;
}

// A restriction that is there but empty would restrict nothing or everything: neither is meant.
template <class Read>
auto read_restriction(const JsonPlace& place, Read read) {
  auto list = read_list(place, kEntriesMax, std::move(read));
  if (list && list->empty()) list = place.refuse("is empty: leave it out or name something");
  return list;
}

Result<names::HostName> read_name(const JsonPlace& place, std::string_view text) {
  auto name = names::HostName::parse(text);
  if (!name) return place.refuse(name.error().message);
  if (name->text() == "pons.internal" || name->is_below("pons.internal"))
    return place.refuse("pons.internal is reserved; its hosts need no rule");
  if (name->text() == "localhost" || name->is_below("localhost"))
    return place.refuse("localhost is the sandbox itself and needs no rule");
  return name;
}

Result<HostPattern> read_wildcard(const JsonPlace& place, std::string_view suffix,
                                  Purpose purpose) {
  const names::HostName name = TRY(read_name(place, suffix));
  if (purpose != Purpose::kAllow)
    return HostPattern{.kind = HostPattern::Kind::kAllBelow, .name = name.text()};
  if (is_shared_suffix(name.text()))
    return place.refuse(
        fmt::format("names below {} belong to different owners: name each host", name.text()));
  return HostPattern{.kind = HostPattern::Kind::kOneBelow, .name = name.text()};
}

Result<HostPattern> read_host(const JsonPlace& place, Purpose purpose) {
  const std::string text = TRY(place.text());
  if (text == "*") {
    if (purpose == Purpose::kDeny) return place.refuse("to deny everything, set mode to none");
    return HostPattern{.kind = HostPattern::Kind::kAnything};
  }
  if (text.starts_with(kWildcard))
    return read_wildcard(place, std::string_view(text).substr(kWildcard.size()), purpose);
  if (text.contains('*'))
    return place.refuse("a wildcard is the whole first label, like *.example.com");
  if (auto range = names::CidrRange::parse(text)) {
    if (purpose == Purpose::kAllow && text.contains('/'))
      return place.refuse("a rule names one host; ranges of addresses go into addresses");
    return HostPattern{.kind = HostPattern::Kind::kRange, .name = text, .range = {*range}};
  }
  if (text.contains('/') || text.contains(':'))
    return place.refuse("a host only: no scheme, port or path; ports has its own key");
  return HostPattern{.name = TRY(read_name(place, text)).text()};
}

Result<std::string> read_method(const JsonPlace& place) {
  std::string method = TRY(place.text());
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; };
  if (method.empty() || method.size() > 32 || !std::ranges::all_of(method, is_letter))
    return place.refuse("a method is written in capitals, like GET");
  if (method == "CONNECT") return place.refuse("CONNECT is no request to a host");
  return method;
}

Result<PathPattern> read_path(const JsonPlace& place) {
  auto pattern = PathPattern::parse(TRY(place.text()));
  if (!pattern) return place.refuse(pattern.error().message);
  return pattern;
}

Result<names::CidrRange> read_range(const JsonPlace& place) {
  auto range = names::CidrRange::parse(TRY(place.text()));
  if (!range) return place.refuse(range.error().message);
  if (const names::AddressClass base = names::classify(range->base());
      base == names::AddressClass::kMetadata)
    return place.refuse("serves credentials of this machine: no rule opens it");
  return range;
}

Result<std::uint16_t> read_port(const JsonPlace& place) {
  return static_cast<std::uint16_t>(TRY(place.number(1, 65'535)));
}

// Literal addresses within it; a name never falls under a range. Whatever it spans, only public
// addresses pass.
Result<PolicyRule> read_allowed_range(const JsonPlace& place, std::string source) {
  constexpr unsigned kNarrow =
      8;  // a wider one begins in one kind of addresses and ends in another
  const std::string text = TRY(place.text());
  auto range = names::CidrRange::parse(text);
  if (!range) return place.refuse(range.error().message);
  const names::AddressClass base = names::classify(range->base());
  const auto size = parse_decimal(std::string_view(text).substr(text.find('/') + 1));
  if (base != names::AddressClass::kPublic && size.value_or(kNarrow) >= kNarrow)
    return place.refuse(fmt::format("a {} address: no range opens it", to_string(base)));
  return PolicyRule{.source = std::move(source),
                    .host = {.kind = HostPattern::Kind::kRange, .name = text, .range = {*range}},
                    .ports = {kHttpsPort, kHttpPort}};
}

// "Bearer ${e2b.secrets.NAME}": text and names of secrets.
Result<std::vector<FieldRule::Part>> read_field_value(const JsonPlace& place) {
  constexpr std::string_view kOpen = "${e2b.";
  constexpr std::string_view kSecret = "${e2b.secrets.";
  constexpr std::size_t kValueBytesMax = 8 * 1024;
  const std::string text = TRY(place.text());
  if (text.size() > kValueBytesMax || !http::is_field_value(text))
    return place.refuse("a field's value is one line of at most 8 KiB");
  std::vector<FieldRule::Part> parts;
  std::string_view rest = text;
  for (;;) {
    const std::size_t begin = rest.find(kOpen);
    if (begin > 0 && !rest.empty())
      parts.push_back({.text = std::string(rest.substr(0, begin)), .is_secret = false});
    if (begin == std::string_view::npos) break;
    rest.remove_prefix(begin);
    const std::size_t end = rest.find('}');
    if (!rest.starts_with(kSecret) || end == std::string_view::npos)
      return place.refuse("the only placeholder is ${e2b.secrets.NAME}");
    std::string name(rest.substr(kSecret.size(), end - kSecret.size()));
    if (!vault::is_secret_name(name)) return place.refuse("a placeholder names no secret");
    parts.push_back({.text = vault::canonical_secret_name(name), .is_secret = true});
    rest.remove_prefix(end + 1);
  }
  return parts;
}

bool names_credential(std::string_view field) {
  constexpr std::array kWords = {"authorization", "cookie", "token",   "key",
                                 "secret",        "x-auth", "password"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return field.contains(word); });
}

// The words of "Bearer sk-live-..." and "sid=...; b=..." that are long enough to be looked for.
std::vector<std::shared_ptr<const Secret>> find_credentials(
    const std::vector<FieldRule::Part>& parts) {
  constexpr std::string_view kBetween = " \t;,\"";
  std::vector<std::shared_ptr<const Secret>> found;
  for (const FieldRule::Part& part : parts) {
    std::string_view rest = part.is_secret ? std::string_view() : part.text;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find_first_of(kBetween), rest.size());
      std::string_view word = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const std::size_t equals = word.find('=');
      if (equals != std::string_view::npos && word.size() - equals > scan::kNeedleBytesMin)
        word.remove_prefix(equals + 1);
      if (word.size() >= scan::kNeedleBytesMin)
        found.push_back(std::make_shared<const Secret>(std::string(word)));
    }
  }
  return found;
}

// What no address check would ever let pass is a mistake in the rule.
Result<void> check_literal(const JsonPlace& place, const PolicyRule& rule) {
  if (rule.host.kind != HostPattern::Kind::kRange) return {};
  const names::IpAddress& address = rule.host.range.front().base();
  const names::AddressClass address_class = names::classify(address);
  if (!names::can_be_opened(address_class))
    return place.refuse(fmt::format("a {} address: no rule opens it", to_string(address_class)));
  const bool named = std::ranges::any_of(
      rule.addresses, [&](const names::CidrRange& range) { return range.contains(address); });
  if (!named && (address_class != names::AddressClass::kPublic || !rule.addresses.empty()))
    return place.refuse(
        fmt::format("a {} address: name it in addresses, too", to_string(address_class)));
  return {};
}

Result<PolicyRule> read_rule(const JsonPlace& place, std::string source) {
  TRY_VOID(place.expect_object({"host", "ports", "methods", "paths", "inspect", "inert_ok",
                                "require_stub", "tcp", "addresses"}));
  if (!place.has("host")) return place.refuse("has no host");
  PolicyRule rule{.source = std::move(source),
                  .host = TRY(read_host(place.at("host"), Purpose::kAllow)),
                  .ports = {kHttpsPort, kHttpPort}};
  if (place.has("ports")) rule.ports = TRY(read_restriction(place.at("ports"), read_port));
  if (place.has("methods")) rule.methods = TRY(read_restriction(place.at("methods"), read_method));
  if (place.has("paths")) rule.paths = TRY(read_restriction(place.at("paths"), read_path));
  if (place.has("addresses"))
    rule.addresses = TRY(read_restriction(place.at("addresses"), read_range));
  if (place.has("inspect")) rule.inspect = TRY(place.at("inspect").flag());
  if (place.has("inert_ok")) rule.inert_ok = TRY(place.at("inert_ok").flag());
  if (place.has("require_stub")) rule.require_stub = TRY(place.at("require_stub").flag());
  if (place.has("tcp")) rule.tcp = TRY(place.at("tcp").flag());
  if (rule.tcp && rule.sees_requests())
    return place.at("tcp").refuse("bytes that pass unread have no methods or paths to inspect");
  if (rule.host.kind == HostPattern::Kind::kAnything && !rule.addresses.empty())
    return place.at("addresses").refuse("opens addresses for every name: name the host");
  TRY_VOID(check_literal(place.at("host"), rule));
  return rule;
}

const Json& embedded_services() {
  static const Json kServices = [] {
    auto services = parse_json(services_json());
    CHECK(services.has_value());
    return std::move(*services);
  }();
  return kServices;
}

const Json& embedded_packages() {
  static const Json kPackages = [] {
    auto packages = parse_json(packages_json());
    CHECK(packages.has_value());
    return std::move(*packages);
  }();
  return kPackages;
}

// A word out of a known set, or an error that names the set.
Result<std::string> read_word(const JsonPlace& place, const Json& known) {
  std::string word = TRY(place.text());
  if (known.contains(word)) return word;
  std::vector<std::string> words;
  for (const auto& [key, ignored] : known.items()) words.push_back(key);
  return place.refuse(fmt::format("not known; there are {}", fmt::join(words, ", ")));
}

Result<std::string> read_credential(const JsonPlace& place) {
  std::string name = TRY(place.text());
  const auto is_fine = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  if (name.empty() || name.size() > 128 || !std::ranges::all_of(name, is_fine))
    return place.refuse("a credential's name has 1 to 128 letters, digits, and _ - .");
  return name;
}

}  // namespace

class PolicyCompiler {
 public:
  PolicyCompiler(std::uint64_t generation, const PackageHosts& packages)
      : policy_(new Policy), packages_(packages) {
    policy_->generation_ = generation;
  }

  Result<std::shared_ptr<const Policy>> compile(const JsonPlace& document) {
    TRY_VOID(document.expect_object({"mode", "allow", "allow_ranges", "deny", "prefer", "services",
                                     "packages", "credentials", "vaults", "limits", "project",
                                     "fields", "note"}));
    TRY_VOID(read_mode(document));
    if (document.has("allow")) TRY_VOID(read_allow(document.at("allow")));
    if (document.has("allow_ranges")) TRY_VOID(read_allow_ranges(document.at("allow_ranges")));
    if (document.has("prefer")) TRY_VOID(read_preference(document.at("prefer")));
    if (document.has("project")) policy_->project_ = TRY(document.at("project").text());
    if (document.has("fields")) TRY_VOID(read_fields(document.at("fields")));
    if (document.has("services")) TRY_VOID(read_services(document.at("services")));
    if (document.has("packages")) TRY_VOID(read_packages(document.at("packages")));
    if (document.has("deny")) TRY_VOID(read_deny(document.at("deny")));
    if (document.has("limits")) TRY_VOID(read_limits(document.at("limits")));
    if (document.has("credentials"))
      policy_->credentials_ =
          TRY(read_list(document.at("credentials"), kEntriesMax, read_credential));
    if (document.has("vaults"))
      policy_->vaults_ = TRY(read_list(document.at("vaults"), kEntriesMax, read_credential));
    TRY_VOID(finish(document));
    return std::shared_ptr<const Policy>(std::move(policy_));
  }

 private:
  Result<void> read_mode(const JsonPlace& document) {
    if (!document.has("mode")) return document.refuse("has no mode: none, list or public");
    const std::string mode = TRY(document.at("mode").text());
    if (mode == "none")
      policy_->mode_ = Mode::kNone;
    else if (mode == "list")
      policy_->mode_ = Mode::kList;
    else if (mode == "public")
      policy_->mode_ = Mode::kPublic;
    else
      return document.at("mode").refuse("must be none, list or public");
    return {};
  }

  Result<void> read_allow(const JsonPlace& place) {
    TRY_VOID(place.expect_list(kRulesMax));
    for (std::size_t i = 0; i < place.value.size(); ++i) {
      PolicyRule rule = TRY(read_rule(place.at(i), fmt::format("allow/{}", i)));
      if (rule.host.kind == HostPattern::Kind::kAnything && policy_->mode_ != Mode::kPublic)
        return place.at(i).at("host").refuse("* is for mode public; here, name each host");
      policy_->allow_.push_back(std::move(rule));
    }
    return {};
  }

  Result<void> read_allow_ranges(const JsonPlace& place) {
    TRY_VOID(place.expect_list(kEntriesMax));
    for (std::size_t i = 0; i < place.value.size(); ++i)
      policy_->allow_.push_back(
          TRY(read_allowed_range(place.at(i), fmt::format("allow_ranges/{}", i))));
    return {};
  }

  Result<void> read_preference(const JsonPlace& place) {
    const std::string word = TRY(place.text());
    if (word != "allow" && word != "deny") return place.refuse("must be allow or deny");
    policy_->prefers_allow_ = word == "allow";
    return {};
  }

  // [{"host", "set": {field: value}}]
  Result<void> read_fields(const JsonPlace& place) {
    TRY_VOID(place.expect_list(kEntriesMax));
    for (std::size_t i = 0; i < place.value.size(); ++i) {
      const JsonPlace rule = place.at(i);
      TRY_VOID(rule.expect_object({"host", "set"}));
      if (!rule.has("host") || !rule.has("set")) return rule.refuse("has no host, or sets nothing");
      HostPattern host = TRY(read_host(rule.at("host"), Purpose::kSetFields));
      if (host.kind != HostPattern::Kind::kName && host.kind != HostPattern::Kind::kAllBelow)
        return rule.at("host").refuse("fields are set for names, not for addresses");
      TRY_VOID(read_field_rules(rule.at("set"), host));
      policy_->field_hosts_.push_back(std::move(host));
    }
    return {};
  }

  Result<void> read_field_rules(const JsonPlace& set, const HostPattern& host) {
    if (!set.value.is_object() || set.value.size() > kEntriesMax)
      return set.refuse("is an object of fields");
    for (const auto& [field, unused] : set.value.items()) {
      const JsonPlace value = set.at(field);
      if (!http::is_token(field) || is_hop_field(field) || is_override_field(field))
        return value.refuse("a field of this name is not for rules");
      std::string name = field;
      std::ranges::transform(name, name.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
      });
      FieldRule rule{.host = host, .name = std::move(name), .parts = TRY(read_field_value(value))};
      rule.is_credential = names_credential(rule.name);
      if (rule.is_credential) rule.literals = find_credentials(rule.parts);
      policy_->fields_.push_back(std::move(rule));
    }
    return {};
  }

  Result<void> read_deny(const JsonPlace& place) {
    TRY_VOID(place.expect_list(kRulesMax));
    for (std::size_t i = 0; i < place.value.size(); ++i)
      policy_->deny_.push_back({.source = fmt::format("deny/{}", i),
                                .host = TRY(read_host(place.at(i), Purpose::kDeny))});
    return {};
  }

  Result<void> read_services(const JsonPlace& place) {
    const auto words = TRY(read_list(
        place, kEntriesMax, [](const JsonPlace& p) { return read_word(p, embedded_services()); }));
    for (const std::string& word : words) {
      const JsonPlace rules{embedded_services().at(word).at("allow"), "/services/" + word};
      for (std::size_t i = 0; i < rules.value.size(); ++i)
        policy_->allow_.push_back(TRY(read_rule(rules.at(i), "service " + word)));
    }
    return {};
  }

  Result<void> read_packages(const JsonPlace& place) {
    if (place.value.is_string()) {
      if (TRY(place.text()) != "all") return place.refuse("is \"all\", or a list");
      for (const auto& [word, hosts] : packages_)
        if (embedded_packages().contains(word))
          for (const PackageHost& host : hosts) add_package_host(word, host);
      return {};
    }
    const auto words = TRY(read_list(
        place, kEntriesMax, [](const JsonPlace& p) { return read_word(p, embedded_packages()); }));
    for (const std::string& word : words) {
      const auto found = packages_.find(word);
      if (found == packages_.end() || found->second.empty())
        return place.refuse(fmt::format(
            "{} names no host in this machine's configuration; set its registry there, or list the "
            "hosts under allow",
            word));
      for (const PackageHost& host : found->second) add_package_host(word, host);
    }
    return {};
  }

  // Fetching is all that a package tool does, but for the requests that the data lists.
  void add_package_host(const std::string& word, const PackageHost& host) {
    PolicyRule rule{.source = "package " + word, .ports = {host.port}, .methods = {"GET", "HEAD"}};
    if (const auto* name = std::get_if<names::HostName>(&host.host)) {
      rule.host = {.kind = HostPattern::Kind::kName, .name = name->text()};
    } else {
      const std::string text = to_text(host.host);
      rule.host = {.kind = HostPattern::Kind::kRange,
                   .name = text,
                   .range = {*names::CidrRange::parse(text)}};
    }
    policy_->allow_.push_back(rule);
    for (const Json& also : embedded_packages().at(word).at("also")) {
      rule.methods = also.at("methods").get<std::vector<std::string>>();
      rule.paths.clear();
      for (const Json& path : also.at("paths"))
        rule.paths.push_back(*PathPattern::parse(path.get<std::string>()));
      policy_->allow_.push_back(rule);
    }
  }

  Result<void> read_limits(const JsonPlace& place) {
    TRY_VOID(place.expect_object({"connections", "requests", "bytes_out"}));
    PolicyLimits& limits = policy_->limits_;
    if (place.has("connections"))
      limits.connections = TRY(place.at("connections").number(1, kConnectionsMax));
    if (place.has("requests")) limits.requests = TRY(place.at("requests").number(0, UINT64_MAX));
    if (place.has("bytes_out")) limits.bytes_out = TRY(place.at("bytes_out").number(0, UINT64_MAX));
    return {};
  }

  Result<void> finish(const JsonPlace& document) {
    auto& allow = policy_->allow_;
    if (policy_->mode_ == Mode::kList && allow.empty())
      return document.refuse(
          "mode list without anything allowed: add to allow, or set mode to none");
    const bool has_general_rule = std::ranges::any_of(allow, [](const PolicyRule& rule) {
      return rule.host.kind == HostPattern::Kind::kAnything;
    });
    if (policy_->mode_ == Mode::kPublic && !has_general_rule)
      allow.push_back({.source = "mode public",
                       .host = {.kind = HostPattern::Kind::kAnything},
                       .ports = {kHttpsPort, kHttpPort}});
    return {};
  }

  std::shared_ptr<Policy> policy_;
  const PackageHosts& packages_;
};

Result<std::shared_ptr<const Policy>> Policy::compile(std::string_view document,
                                                      std::uint64_t generation,
                                                      const PackageHosts& packages) {
  const auto json = parse_json(document, {.depth = kDocumentDepthMax, .bytes = kDocumentBytesMax});
  if (!json) return make_error(json.error().code, "read policy", json.error().message);
  return PolicyCompiler(generation, packages).compile(JsonPlace{*json, ""});
}

}  // namespace pons::egress
