#pragma once

#include "attached_sandbox.h"

namespace pons::egress {

// Puts a decision about the sandbox's traffic into the audit log. What the sandbox chose (method,
// host, path) is left out where it holds a stub or a secret, in any form that is looked for.
void record_decision(Boundary& boundary, AttachedSandbox& sandbox, audit::Decision decision);
// The same before the first byte leaves: should egress be killed, the log knows that it was sent.
[[nodiscard]] audit::AuditLog::Underway record_beginning(Boundary& boundary,
                                                         AttachedSandbox& sandbox,
                                                         audit::Decision decision);

}  // namespace pons::egress
