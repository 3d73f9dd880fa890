#pragma once

#include <memory>
#include <string>

#include "attached_sandbox.h"
#include "pons/base/json.h"

namespace pons::egress {

// What would happen to a request of the sandbox, and which rule decides; nothing is sent to the
// host, only its name is looked up. {"verdict", "code", "reason", "hint", "rule", "tls",
// "credentials"}
Task<Result<Json>> explain_request(Boundary& boundary, std::shared_ptr<AttachedSandbox> sandbox,
                                   std::string url, std::string method);

}  // namespace pons::egress
