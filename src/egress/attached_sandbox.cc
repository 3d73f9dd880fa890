#include "attached_sandbox.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy_rule.h"
#include "pons/base/id.h"

namespace pons::egress {

namespace {
constexpr std::size_t kKnownStubsMax = 1024;
constexpr std::size_t kAliasedMax = 64;

std::uint32_t random_number() {
  std::uint32_t number = 0;
  random_bytes(&number, sizeof number);
  return number;
}
}  // namespace

// Anywhere in the range: a program may still use an address that it was given before egress was
// restarted, and must not find another name behind it.
AttachedSandbox::AttachedSandbox(linux::Loop& loop, std::uint64_t its_key, std::string its_id,
                                 std::shared_ptr<const Policy> its_policy)
    : key(its_key),
      id(std::move(its_id)),
      policy(std::move(its_policy)),
      names({.begin_at = random_number()}),
      flows(loop) {}

bool is_same_use(const vault::Credential& one, const vault::Credential& other) {
  return &one == &other ||
         (one.value.reveal() == other.value.reveal() && one.bindings == other.bindings &&
          one.scrub == other.scrub && one.created_unix_ms == other.created_unix_ms);
}

const std::vector<Grant>& AttachedSandbox::grants(const vault::Vault& vault) const {
  const std::uint64_t generation = vaults_generation(vault);
  if (grants_generation_ == generation && grants_policy_ == policy->generation()) return grants_;
  grants_.clear();
  for (const std::string& name : policy->credentials())
    if (auto credential = vault.load(name))
      grants_.push_back({*credential, stub_for(vault, **credential)});
  for (const auto& own : own_vaults)
    for (const auto& credential : own->vault->list())
      if ((vault::is_for_sandboxes(*credential) || credential->name == also_granted) &&
          !has_grant(credential->name))
        grants_.push_back({credential, stub_for(*own->vault, *credential)});
  grants_generation_ = generation;
  grants_policy_ = policy->generation();
  return grants_;
}

// Each of them only grows.
std::uint64_t AttachedSandbox::vaults_generation(const vault::Vault& vault) const {
  std::uint64_t all = vault.generation();
  for (const auto& own : own_vaults) all += own->vault->generation();
  return all;
}

bool AttachedSandbox::has_grant(std::string_view name) const {
  return std::ranges::any_of(grants_,
                             [&](const Grant& grant) { return grant.credential->name == name; });
}

std::string AttachedSandbox::stub_for(const vault::Vault& vault,
                                      const vault::Credential& credential) const {
  return vault.stub(credential, id, fmt::format("{:016x}", key));
}

void AttachedSandbox::remember_grants(const vault::Vault& vault) {
  granted.clear();
  for (const Grant& grant : grants(vault)) {
    granted.emplace(grant.credential->name, grant.credential);
    know_stub(grant);
  }
}

void AttachedSandbox::know_stub(const Grant& grant) {
  if (known_stubs_.size() >= kKnownStubsMax && !known_stubs_.contains(grant.stub))
    known_stubs_.clear();
  known_stubs_[grant.stub] = grant.credential->name;
}

void AttachedSandbox::note_aliases(const names::HostName& name, std::vector<std::string> aliases) {
  aliases_.erase(name.text());
  if (aliases.empty()) return;
  if (aliases_.size() >= kAliasedMax) aliases_.clear();
  aliases_[name.text()] = std::move(aliases);
}

std::vector<std::string> AttachedSandbox::aliases_of(const std::string& host) const {
  const auto known = aliases_.find(host);
  return known == aliases_.end() ? std::vector<std::string>() : known->second;
}

bool AttachedSandbox::spend(std::uint64_t bytes) {
  const std::uint64_t most = policy->limits().bytes_out;
  if (most != 0 && (traffic.bytes_out > most || bytes > most - traffic.bytes_out)) {
    traffic.bytes_out = std::max(traffic.bytes_out, most);
    return false;
  }
  traffic.bytes_out += bytes;
  return true;
}

bool AttachedSandbox::has_spent_all() const {
  const PolicyLimits& limits = policy->limits();
  return (limits.requests != 0 && traffic.requests > limits.requests) ||
         (limits.bytes_out != 0 && traffic.bytes_out >= limits.bytes_out);
}

Result<WithheldSet> AttachedSandbox::rule_secrets() const {
  if (rule_secrets_of_ == policy) return rule_secrets_;
  std::vector<WithheldSecret> all;
  for (const FieldRule& rule : policy->field_rules())
    for (const auto& literal : rule.literals)
      all.push_back({.name = "fields/" + rule.name, .value = literal});
  rule_secrets_ = TRY(make_withheld_set(std::move(all)));
  rule_secrets_of_ = policy;
  return rule_secrets_;
}

Result<std::shared_ptr<const scan::NeedleSet>> AttachedSandbox::stubs(const vault::Vault& vault) {
  const std::uint64_t generation = vaults_generation(vault);
  if (stubs_generation_ == generation && stubs_policy_ == policy->generation()) return stubs_;
  std::vector<std::string> owners;
  std::vector<scan::Needle> needles;
  for (const Grant& grant : grants(vault)) know_stub(grant);
  for (const auto& [stub, name] : known_stubs_) {
    needles.push_back({.id = static_cast<std::uint32_t>(owners.size()), .text = stub});
    owners.push_back(name);
  }
  stubs_ = needles.empty() ? nullptr : TRY(scan::NeedleSet::create(needles));
  stub_owners_ = std::make_shared<const std::vector<std::string>>(std::move(owners));
  stubs_generation_ = generation;
  stubs_policy_ = policy->generation();
  return stubs_;
}

}  // namespace pons::egress
