#include "pons/egress/policy.h"

#include <algorithm>
#include <utility>

#include "policy_rule.h"

namespace pons::egress {
namespace {

constexpr const char* kBuiltIn = "built in";
constexpr std::string_view kOwnZone = "pons.internal";
constexpr std::string_view kTools = "tools.pons.internal";

bool is_own(const Destination& destination) {
  const auto* name = std::get_if<names::HostName>(&destination);
  return name != nullptr && (name->text() == kOwnZone || name->is_below(kOwnZone));
}

// What holds for own names, which no rule can change; `allowed` is the answer for those that exist.
Decision judge_own(const Destination& destination, bool allowed = true) {
  const bool exists = is_built_in(std::get<names::HostName>(destination));
  return {.reason = exists && allowed ? Reason::kAllowed : Reason::kHostNotAllowed,
          .rule = kBuiltIn};
}

bool is_default_port(std::uint16_t port) {
  return port == kHttpsPort || port == kHttpPort;
}

Decision allowed_by(const PolicyRule& rule) {
  return {.reason = Reason::kAllowed, .rule = rule.source, .breadth = rule.host.breadth()};
}

bool takes_method(const PolicyRule& rule, std::string_view method) {
  return rule.methods.empty() || std::ranges::find(rule.methods, method) != rule.methods.end();
}

bool takes_address(const PolicyRule& rule, const names::IpAddress& address,
                   names::AddressClass address_class) {
  if (rule.addresses.empty()) return address_class == names::AddressClass::kPublic;
  return names::can_be_opened(address_class) &&
         std::ranges::any_of(rule.addresses, [&](const names::CidrRange& range) {
           return range.contains(address);
         });
}

}  // namespace

Policy::Policy() = default;
Policy::Policy(const Policy&) = default;
Policy::~Policy() = default;

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::kAllowed:
      return "allowed";
    case Reason::kNetworkOff:
      return "network_off";
    case Reason::kHostDenied:
      return "host_denied";
    case Reason::kHostNotAllowed:
      return "host_not_allowed";
    case Reason::kPortNotAllowed:
      return "port_not_allowed";
    case Reason::kMethodNotAllowed:
      return "method_not_allowed";
    case Reason::kPathNotAllowed:
      return "path_not_allowed";
    case Reason::kPathAmbiguous:
      return "path_ambiguous";
    case Reason::kAddressNotAllowed:
      return "address_not_allowed";
    case Reason::kTooManyNames:
      return "too_many_names";
  }
  return "unknown";
}

bool is_built_in(const names::HostName& name) {
  return name.text() == "gateway.pons.internal" || name.text() == kTools;
}

bool is_answered_here(const Destination& destination) {
  const auto* name = std::get_if<names::HostName>(&destination);
  return name != nullptr && name->text() == kTools;
}

std::shared_ptr<const Policy> Policy::closed(std::uint64_t generation) {
  std::shared_ptr<Policy> policy(new Policy);
  policy->generation_ = generation;
  return policy;
}

bool HostPattern::matches(const Destination& destination) const {
  if (kind == Kind::kAnything) return true;
  if (const auto* address = std::get_if<names::IpAddress>(&destination))
    return kind == Kind::kRange && range.front().contains(*address);
  const auto& host = std::get<names::HostName>(destination);
  switch (kind) {
    case Kind::kName:
      return host.text() == name;
    case Kind::kOneBelow:
      return host.parent() == name;
    case Kind::kAllBelow:
      return host.is_below(name);
    case Kind::kAnything:
    case Kind::kRange:
      return false;
  }
  return false;
}

// The rules that name the host; in mode `public`, where none does, those for anything.
std::vector<const PolicyRule*> Policy::rules_for(const Destination& destination) const {
  std::vector<const PolicyRule*> named;
  std::vector<const PolicyRule*> general;
  for (const PolicyRule& rule : allow_)
    if (rule.host.matches(destination))
      (rule.host.kind == HostPattern::Kind::kAnything ? general : named).push_back(&rule);
  return named.empty() ? general : named;
}

std::vector<const PolicyRule*> Policy::rules_for(const Destination& destination,
                                                 std::uint16_t port) const {
  auto rules = rules_for(destination);
  std::erase_if(rules, [port](const PolicyRule* rule) {
    return std::ranges::find(rule->ports, port) == rule->ports.end();
  });
  return rules;
}

const PolicyRule* Policy::find_denial(const Destination& destination) const {
  if (prefers_allow_ && is_named(destination)) return nullptr;
  const auto found = std::ranges::find_if(
      deny_, [&](const PolicyRule& rule) { return rule.host.matches(destination); });
  return found == deny_.end() ? nullptr : &*found;
}

// By the document: what a person grants stands above no denial.
bool Policy::is_named(const Destination& destination) const {
  return std::ranges::any_of(allow_, [&](const PolicyRule& rule) {
    return !rule.granted && rule.host.kind != HostPattern::Kind::kAnything &&
           rule.host.matches(destination);
  });
}

std::vector<const FieldRule*> Policy::fields_for(const Destination& destination) const {
  if (is_own(destination)) return {};
  const auto closeness = [](const HostPattern& host) {
    return std::pair(host.kind == HostPattern::Kind::kName, host.name.size());
  };
  const HostPattern* closest = nullptr;
  for (const HostPattern& host : field_hosts_)
    if (host.matches(destination) && (closest == nullptr || closeness(host) > closeness(*closest)))
      closest = &host;
  std::vector<const FieldRule*> rules;
  if (closest == nullptr) return rules;
  for (const FieldRule& rule : fields_)
    if (rule.host == *closest) rules.push_back(&rule);
  return rules;
}

bool Policy::uses_secret(std::string_view project, std::string_view name) const {
  return project_ == project && std::ranges::any_of(fields_, [&](const FieldRule& rule) {
           return std::ranges::any_of(rule.parts, [&](const FieldRule::Part& part) {
             return part.is_secret && part.text == name;
           });
         });
}

std::string_view Policy::find_obstacle(const Destination& destination) const {
  const auto* name = std::get_if<names::HostName>(&destination);
  if (mode_ == Mode::kNone) return "this sandbox has no network";
  if (name == nullptr) return "an address may be anybody's: a rule has to name it";
  if (is_own(destination)) return "names of Pons itself are not asked for";
  if (name->is_single_label()) return "a name of one label: a rule has to name it";
  if (find_denial(destination) != nullptr) return "a rule denies this host";
  if (!fields_for(destination).empty()) return "rules put fields into requests to this host";
  if (std::ranges::any_of(rules_for(destination),
                          [](const PolicyRule* rule) { return !rule->paths.empty(); }))
    return "rules name paths of this host";
  return {};
}

std::shared_ptr<const Policy> Policy::widened(const names::HostName& name, std::uint16_t port,
                                              std::vector<std::string> methods,
                                              std::string source) const {
  std::shared_ptr<Policy> wider(new Policy(*this));
  const auto add = [&](PolicyRule rule) {
    rule.host = HostPattern{.name = name.text()};
    rule.granted = true;
    wider->allow_.push_back(std::move(rule));
  };
  // Once a rule names the host, those for anything do not count for it any more.
  for (const PolicyRule* rule : rules_for(name))
    if (rule->host.kind == HostPattern::Kind::kAnything) add(*rule);
  add({.source = std::move(source), .host = {}, .ports = {port}, .methods = std::move(methods)});
  return wider;
}

Decision Policy::judge_name(const names::HostName& name) const {
  if (is_own(name)) return judge_own(name);
  if (mode_ == Mode::kNone) return {.reason = Reason::kNetworkOff};
  if (const PolicyRule* denial = find_denial(name))
    return {.reason = Reason::kHostDenied, .rule = denial->source};
  const auto rules = rules_for(name);
  // A name of one label means whatever the network it is asked in says: a rule must name it.
  if (rules.empty() || (name.is_single_label() && rules.front()->host.breadth() != Breadth::kNamed))
    return {.reason = Reason::kHostNotAllowed};
  const auto naming = std::ranges::find_if(
      rules, [](const PolicyRule* rule) { return rule->host.breadth() == Breadth::kNamed; });
  return allowed_by(naming == rules.end() ? *rules.front() : **naming);
}

Decision Policy::judge_connect(const Destination& destination, std::uint16_t port) const {
  if (is_own(destination)) {
    if (is_default_port(port)) return judge_own(destination);
    return {.reason = Reason::kPortNotAllowed, .rule = kBuiltIn};
  }
  if (const auto* name = std::get_if<names::HostName>(&destination)) {
    Decision decision = judge_name(*name);
    if (!decision.allowed()) return decision;
    if (rules_for(destination, port).empty())
      return {.reason = Reason::kPortNotAllowed, .rule = std::move(decision.rule)};
    return decision;
  }
  if (mode_ == Mode::kNone) return {.reason = Reason::kNetworkOff};
  if (const PolicyRule* denial = find_denial(destination))
    return {.reason = Reason::kHostDenied, .rule = denial->source};
  const auto rules = rules_for(destination);
  if (rules.empty()) return {.reason = Reason::kHostNotAllowed};
  if (rules_for(destination, port).empty())
    return {.reason = Reason::kPortNotAllowed, .rule = rules.front()->source};
  return judge_address(destination, port, std::get<names::IpAddress>(destination));
}

Decision Policy::judge_address(const Destination& destination, std::uint16_t port,
                               const names::IpAddress& address) const {
  if (is_own(destination)) return judge_own(destination, /*allowed=*/false);
  if (mode_ == Mode::kNone) return {.reason = Reason::kNetworkOff};
  const bool preferred = prefers_allow_ && is_named(destination);
  if (const PolicyRule* denial = preferred ? nullptr : find_denial(address))
    return {.reason = Reason::kAddressNotAllowed, .rule = denial->source};
  const names::AddressClass address_class = names::classify(address);
  for (const PolicyRule* rule : rules_for(destination, port))
    if (takes_address(*rule, address, address_class)) return allowed_by(*rule);
  return {.reason = Reason::kAddressNotAllowed};
}

Decision Policy::judge_request(const Destination& destination, std::uint16_t port,
                               std::string_view method, std::string_view target) const {
  Decision decision = judge_connect(destination, port);
  if (!decision.allowed() || is_own(destination)) return decision;
  auto rules = rules_for(destination, port);
  std::erase_if(rules, [&](const PolicyRule* rule) { return !takes_method(*rule, method); });
  if (rules.empty()) return {.reason = Reason::kMethodNotAllowed, .rule = std::move(decision.rule)};
  for (const PolicyRule* rule : rules)
    if (rule->paths.empty()) return allowed_by(*rule);
  const auto path = normalize_path(target);
  if (!path) return {.reason = Reason::kPathAmbiguous, .rule = rules.front()->source};
  for (const PolicyRule* rule : rules)
    for (const PathPattern& pattern : rule->paths)
      if (pattern.matches(*path)) return allowed_by(*rule);
  return {.reason = Reason::kPathNotAllowed, .rule = rules.front()->source};
}

bool Policy::needs_inspection(const Destination& destination, std::uint16_t port) const {
  return std::ranges::any_of(rules_for(destination, port), &PolicyRule::sees_requests) ||
         !fields_for(destination).empty();
}

bool Policy::tolerates_stubs(const Destination& destination, std::uint16_t port) const {
  if (is_own(destination)) return !is_answered_here(destination);
  return std::ranges::any_of(rules_for(destination, port), &PolicyRule::inert_ok);
}

bool Policy::requires_stubs(const Destination& destination, std::uint16_t port) const {
  return std::ranges::any_of(rules_for(destination, port), &PolicyRule::require_stub);
}

bool Policy::allows_opaque(const Destination& destination, std::uint16_t port) const {
  return std::ranges::any_of(rules_for(destination, port), &PolicyRule::tcp) &&
         !needs_inspection(destination, port);
}

}  // namespace pons::egress
