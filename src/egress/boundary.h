#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bound_hosts.h"
#include "metrics.h"
#include "pons/audit/audit_log.h"
#include "pons/base/clock.h"
#include "pons/egress/leaf_cache.h"
#include "pons/egress/package_hosts.h"
#include "pons/http/tls.h"
#include "pons/linux/loop.h"
#include "pons/names/resolver.h"
#include "pons/vault/project_secrets.h"
#include "pons/vault/project_vaults.h"
#include "pons/vault/vault.h"
#include "sent_secrets.h"
#include "vault_needles.h"
#include "withheld_secrets.h"

namespace pons::egress {

class AccessRequests;

// What all sandboxes' traffic has in common.
struct Boundary {
  linux::Loop& loop;
  const Clock& clock;
  vault::Vault& vault;
  VaultNeedles& secrets;
  BoundHosts& bound_hosts;
  SentSecrets& sent_secrets;
  audit::AuditLog& audit;
  AccessRequests& access;
  names::Resolver& resolver;
  LeafCache& leaves;
  std::shared_ptr<http::TlsContext> server_tls;
  std::shared_ptr<http::TlsContext> client_tls;
  std::shared_ptr<http::TlsSessions> sessions;
  vault::ProjectSecrets* project_secrets = nullptr;  // null: no project has any
  vault::ProjectVaults* project_vaults = nullptr;    // null: no project has any
  int gateway_channel = -1;                          // to the role behind gateway.pons.internal
  int brain_channel = -1;         // and tools.pons.internal/mcp; -1: nothing is there
  std::uint64_t flows = 0;        // open now
  std::uint64_t body_memory = 0;  // bytes, see body_memory.h
  Metrics metrics{};
  std::unique_ptr<WithheldSecrets> withheld = std::make_unique<WithheldSecrets>();
};

}  // namespace pons::egress
