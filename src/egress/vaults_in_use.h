#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bound_hosts.h"
#include "vault_needles.h"

namespace pons::egress {

// A vault that some sandboxes have beside the operator's: what it holds concerns them alone.
struct VaultInUse {
  explicit VaultInUse(std::shared_ptr<vault::Vault> its_vault)
      : vault(std::move(its_vault)), secrets(*vault), bound_hosts(*vault) {}
  VaultInUse(const VaultInUse&) = delete;
  VaultInUse& operator=(const VaultInUse&) = delete;

  const std::shared_ptr<vault::Vault> vault;
  VaultNeedles secrets;
  BoundHosts bound_hosts;
};
using OwnVaults = std::vector<std::shared_ptr<VaultInUse>>;

// Made once for all sandboxes that have the same vault, as long as one has it.
class VaultsInUse {
 public:
  std::shared_ptr<VaultInUse> of(const std::shared_ptr<vault::Vault>& vault);

 private:
  std::map<const vault::Vault*, std::weak_ptr<VaultInUse>> all_;
};

struct Boundary;
class AttachedSandbox;

// One that concerns a sandbox. Lives as long as boundary and sandbox.
struct VaultView {
  const vault::Vault& vault;
  VaultNeedles& secrets;
  BoundHosts& bound_hosts;
};
// The operator's first.
std::vector<VaultView> vaults_of(const Boundary& boundary, const AttachedSandbox& sandbox);

// On whatever port; and on that one.
bool is_bound(const Boundary& boundary, const AttachedSandbox& sandbox, const Destination& host);
bool is_bound(const Boundary& boundary, const AttachedSandbox& sandbox, const Destination& host,
              std::uint16_t port);
BoundHosts::Credentials credentials_for(const Boundary& boundary, const AttachedSandbox& sandbox,
                                        const Destination& host);
// The one that it was given by that name: the operator's only where its policy grants it. Null: it
// is in none of them.
std::shared_ptr<const vault::Credential> find_credential(const Boundary& boundary,
                                                         const AttachedSandbox& sandbox,
                                                         std::string_view name);

}  // namespace pons::egress
