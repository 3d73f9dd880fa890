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

namespace pons::egress {

class AccessRequests;

}  // namespace pons::egress

namespace pons::mcp {
class Server;
}

namespace pons::egress {

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
  mcp::Server* tools = nullptr;   // at tools.pons.internal/mcp; null: nothing is there
  int gateway_channel = -1;       // to the role behind gateway.pons.internal
  std::uint64_t flows = 0;        // open now
  std::uint64_t body_memory = 0;  // bytes, see body_memory.h
  Metrics metrics{};
};

}  // namespace pons::egress
