#pragma once

#include <optional>
#include <string>

#include "attachments.h"
#include "pons/vault/vault_api.h"
#include "refusal.h"

namespace pons::egress {

// Whether a server takes a token: a greeting of MCP that leaves as a request of the brain would,
// under a policy that allows this server alone.
class McpProbe {
 public:
  McpProbe(Boundary& boundary, Attachments& attachments)
      : boundary_(boundary), attachments_(attachments) {}

  // Nothing when the server was not reached.
  Task<std::optional<vault::ProbeAnswer>> greet(vault::VaultPlace place, std::string url);

 private:
  Result<std::shared_ptr<AttachedSandbox>> make_sandbox(const vault::VaultPlace& place,
                                                        const Origin& origin);

  Boundary& boundary_;
  Attachments& attachments_;
  std::uint64_t greeted_ = 0;
};

}  // namespace pons::egress
