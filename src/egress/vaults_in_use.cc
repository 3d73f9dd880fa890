#include "vaults_in_use.h"

#include <algorithm>

#include "attached_sandbox.h"

namespace pons::egress {

std::shared_ptr<VaultInUse> VaultsInUse::of(const std::shared_ptr<vault::Vault>& vault) {
  std::erase_if(all_, [](const auto& known) { return known.second.expired(); });
  if (const auto known = all_.find(vault.get()); known != all_.end())
    if (auto used = known->second.lock()) return used;
  auto used = std::make_shared<VaultInUse>(vault);
  all_[vault.get()] = used;
  return used;
}

std::vector<VaultView> vaults_of(const Boundary& boundary, const AttachedSandbox& sandbox) {
  std::vector<VaultView> all;
  all.push_back(
      {.vault = boundary.vault, .secrets = boundary.secrets, .bound_hosts = boundary.bound_hosts});
  for (const auto& own : sandbox.own_vaults)
    all.push_back({.vault = *own->vault, .secrets = own->secrets, .bound_hosts = own->bound_hosts});
  return all;
}

bool is_bound(const Boundary& boundary, const AttachedSandbox& sandbox, const Destination& host) {
  return std::ranges::any_of(vaults_of(boundary, sandbox), [&](const VaultView& view) {
    return view.bound_hosts.contains(host);
  });
}

bool is_bound(const Boundary& boundary, const AttachedSandbox& sandbox, const Destination& host,
              std::uint16_t port) {
  return std::ranges::any_of(vaults_of(boundary, sandbox), [&](const VaultView& view) {
    return view.bound_hosts.contains(host, port);
  });
}

BoundHosts::Credentials credentials_for(const Boundary& boundary, const AttachedSandbox& sandbox,
                                        const Destination& host) {
  BoundHosts::Credentials all;
  for (const VaultView& view : vaults_of(boundary, sandbox))
    std::ranges::copy(view.bound_hosts.credentials_for(host), std::back_inserter(all));
  return all;
}

std::shared_ptr<const vault::Credential> find_credential(const Boundary& boundary,
                                                         const AttachedSandbox& sandbox,
                                                         std::string_view name) {
  const auto& named = sandbox.policy->credentials();
  if (std::ranges::find(named, name) == named.end())
    for (const auto& own : sandbox.own_vaults)
      if (auto known = own->vault->load(name)) return *known;
  for (const VaultView& view : vaults_of(boundary, sandbox))
    if (auto known = view.vault.load(name)) return *known;
  return nullptr;
}

}  // namespace pons::egress
