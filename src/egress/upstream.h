#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attached_sandbox.h"
#include "pons/http/transport.h"
#include "refusal.h"

namespace pons::egress {

// A connection to the world, made for one connection of one sandbox and never lent to another.
struct UpstreamConnection {
  std::unique_ptr<http::Transport> transport;  // none where egress itself answers
  std::string protocol;                        // by ALPN; empty when it was not spoken about
};

// Resolves, checks every address against the policy and dials exactly those. Over TLS the host must
// prove its name, with a certificate that is not one of ours. `protocols` is the ALPN offer.
Task<std::expected<UpstreamConnection, Refusal>> connect_upstream(
    Boundary& boundary, std::shared_ptr<AttachedSandbox> sandbox, Origin origin,
    std::vector<std::string> protocols);

// The same without TLS of our own, for bytes that pass as they are.
Task<std::expected<linux::UniqueFd, Refusal>> dial_upstream(
    Boundary& boundary, std::shared_ptr<AttachedSandbox> sandbox, Origin origin);

}  // namespace pons::egress
