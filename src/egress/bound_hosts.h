#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pons/egress/destination.h"
#include "pons/vault/vault.h"

namespace pons::egress {

// The hosts that get secrets, whichever sandbox's: looked into for all of them, because they may
// show to one what another has sent, and serve the operator's account only. Those that got one that
// was taken away a while ago may still show it, and serve whom they like. Made again when the vault
// changes.
class BoundHosts {
 public:
  using Credentials = std::vector<std::shared_ptr<const vault::Credential>>;

  explicit BoundHosts(const vault::Vault& vault) : vault_(vault) {}

  // On whatever port, now or a while ago. An address is never bound.
  bool contains(const Destination& host) const;
  bool contains(const Destination& host, std::uint16_t port) const;
  // Those that are bound to the host now, on whatever port; valid until the vault changes.
  Credentials credentials_for(const Destination& host) const;
  // "api.example.com" or "*.example.com", and port; now or a while ago.
  using Pattern = std::pair<std::string, std::uint16_t>;
  std::set<Pattern> patterns() const;
  // Lets go of what the vault has forgotten; everything else here does so, too.
  void refresh() const;

 private:
  using ByPattern = std::map<std::string, Credentials, std::less<>>;
  static Credentials find(const ByPattern& all, const Destination& host);

  const vault::Vault& vault_;
  mutable std::uint64_t generation_ = 0;
  mutable ByPattern now_;
  mutable ByPattern former_;
};

}  // namespace pons::egress
