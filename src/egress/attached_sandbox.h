#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "boundary.h"
#include "pons/egress/minute_budget.h"
#include "pons/egress/policy.h"
#include "pons/egress/synthetic_addresses.h"
#include "pons/linux/fd.h"
#include "vaults_in_use.h"

namespace pons::egress {

// Since it was attached, or since egress was restarted.
struct Traffic {
  std::uint64_t connections = 0;  // open now
  std::uint64_t requests = 0;
  std::uint64_t bytes_out = 0;  // what left
  std::uint64_t refused = 0;
};

// False when what is sent, or where it may be sent, has changed. That a former value is forgotten
// changes neither.
bool is_same_use(const vault::Credential& one, const vault::Credential& other);

// A credential that the sandbox may use, and what stands for it inside.
struct Grant {
  std::shared_ptr<const vault::Credential> credential;
  std::string stub;
};

// A sandbox as egress knows it. Its identity is the two sockets: nothing that comes out of another
// sandbox can arrive at them.
class AttachedSandbox {
 public:
  AttachedSandbox(linux::Loop& loop, std::uint64_t its_key, std::string its_id,
                  std::shared_ptr<const Policy> its_policy);

  // The credentials of its policy that exist, as the vaults have them now. The list stays until
  // vaults or policy change.
  const std::vector<Grant>& grants(const vault::Vault& vault) const;
  // As they were when it was last asked: to tell what the vault has taken away.
  std::map<std::string, std::shared_ptr<const vault::Credential>> granted;
  void remember_grants(const vault::Vault& vault);
  // Every stub it was given, by its text: whose it is. They are looked for whatever has become of
  // their credentials.
  const std::map<std::string, std::string>& known_stubs() const { return known_stubs_; }
  void remember_stubs(std::map<std::string, std::string> stubs) { known_stubs_ = std::move(stubs); }
  // Counts bytes that are about to leave. False when they are more than the policy gives.
  [[nodiscard]] bool spend(std::uint64_t bytes);
  bool has_spent_all() const;
  // What names of hosts turned out to stand for when they were last dialled, for the record.
  void note_aliases(const names::HostName& name, std::vector<std::string> aliases);
  std::vector<std::string> aliases_of(const std::string& host) const;
  // Bound to this very sandbox: one that gets its id later has others.
  std::string stub_for(const vault::Vault& vault, const vault::Credential& credential) const;
  // Their stubs, also of those that were taken away, ready to be looked for; null when it has none.
  Result<std::shared_ptr<const scan::NeedleSet>> stubs(const vault::Vault& vault);
  // The names of the credentials whose stubs are in the set that stubs() returned last, by the id
  // of a Finding. Kept together with that set, as VaultNeedles::owners().
  using StubOwners = std::shared_ptr<const std::vector<std::string>>;
  const StubOwners& stub_owners() const { return stub_owners_; }
  // Credentials that are written in the rules of its policy.
  Result<WithheldSet> rule_secrets() const;

  const std::uint64_t key;
  const std::string id;
  std::shared_ptr<const Policy> policy;
  OwnVaults own_vaults;      // those that the policy names, beside the operator's
  std::string also_granted;  // one of theirs that is not for sandboxes; empty: none
  SyntheticAddresses names;
  Traffic traffic;
  std::uint64_t body_memory = 0;  // bytes, see body_memory.h
  MinuteBudget asks;              // for access
  linux::UniqueFd listener;
  linux::UniqueFd resolver;

 private:
  void know_stub(const Grant& grant);
  std::uint64_t vaults_generation(const vault::Vault& vault) const;
  bool has_grant(std::string_view name) const;

  // Made once for many requests: a stub is worth several hashes.
  mutable std::vector<Grant> grants_;
  mutable std::uint64_t grants_generation_ = 0;  // of the vaults
  mutable std::uint64_t grants_policy_ = 0;
  std::map<std::string, std::vector<std::string>> aliases_;
  // Whose they are. A program may still send one whose credential is gone.
  std::map<std::string, std::string> known_stubs_;
  std::uint64_t stubs_generation_ = 0;  // of the vaults
  std::uint64_t stubs_policy_ = 0;
  std::shared_ptr<const scan::NeedleSet> stubs_;
  StubOwners stub_owners_ = std::make_shared<const std::vector<std::string>>();
  mutable std::shared_ptr<const Policy> rule_secrets_of_;
  mutable WithheldSet rule_secrets_;

 public:
  linux::TaskGroup flows;  // last: they use all of the above
};

}  // namespace pons::egress
