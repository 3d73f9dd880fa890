#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pons/base/secret.h"
#include "pons/scan/needle_set.h"
#include "pons/vault/vault.h"

namespace pons::egress {

// Every secret of the vault, and those it had a while ago, ready to be looked for; made again when
// the vault changes.
class VaultNeedles {
 public:
  explicit VaultNeedles(const vault::Vault& vault) : vault_(vault) {}
  // Null when the vault is empty. An error means that nothing may pass.
  Result<std::shared_ptr<const scan::NeedleSet>> current();
  // Whose secret it is, by the id of a Finding.
  struct Owner {
    std::shared_ptr<const vault::Credential> credential;
    const Secret* value = nullptr;  // one of the credential's
  };
  using Owners = std::shared_ptr<const std::vector<Owner>>;
  // For the set that current() returned last. Whoever keeps the set keeps these with it: the next
  // set counts anew.
  const Owners& owners() const { return owners_; }

 private:
  const vault::Vault& vault_;
  std::uint64_t generation_ = 0;
  std::shared_ptr<const scan::NeedleSet> set_;
  Owners owners_ = std::make_shared<const std::vector<Owner>>();
};

}  // namespace pons::egress
