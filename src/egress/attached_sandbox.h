#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "boundary.h"
#include "pons/egress/policy.h"
#include "pons/egress/synthetic_addresses.h"
#include "pons/linux/fd.h"

namespace pons::egress {

// Since it was attached, or since egress was restarted.
struct Traffic {
  std::uint64_t connections = 0;  // open now
  std::uint64_t requests = 0;
  std::uint64_t bytes_out = 0;  // what left
  std::uint64_t refused = 0;
};

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
                  std::shared_ptr<const Policy> its_policy)
      : key(its_key), id(std::move(its_id)), policy(std::move(its_policy)), flows(loop) {}

  // The credentials of its policy that exist, as the vault has them now.
  std::vector<Grant> grants(const vault::Vault& vault) const;
  // As they were when it was last asked: to tell what the vault has taken away.
  std::map<std::string, std::shared_ptr<const vault::Credential>> granted;
  void remember_grants(const vault::Vault& vault);
  // Their stubs, ready to be looked for; null when it has none.
  Result<std::shared_ptr<const scan::NeedleSet>> stubs(const vault::Vault& vault);
  // The name of the credential whose stub was found in the set that stubs() returned last.
  const std::string& stub_owner(std::uint32_t needle) const { return stub_owners_.at(needle); }

  // True when it has sent more than its policy gives it.
  bool has_spent_bytes() const {
    return policy->limits().bytes_out != 0 && traffic.bytes_out > policy->limits().bytes_out;
  }
  bool has_spent_requests() const {
    return policy->limits().requests != 0 && traffic.requests > policy->limits().requests;
  }

  const std::uint64_t key;
  const std::string id;
  std::shared_ptr<const Policy> policy;
  SyntheticAddresses names;
  Traffic traffic;
  linux::UniqueFd listener;
  linux::UniqueFd resolver;

 private:
  std::uint64_t stubs_generation_ = 0;  // of the vault
  std::uint64_t stubs_policy_ = 0;
  std::shared_ptr<const scan::NeedleSet> stubs_;
  std::vector<std::string> stub_owners_;

 public:
  linux::TaskGroup flows;  // last: they use all of the above
};

}  // namespace pons::egress
