#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pons/audit/audit_log.h"
#include "pons/http/router.h"

namespace pons::audit {

// True when the request was answered with a refusal: whoever wires the routes knows who may ask.
using Refusal = std::function<bool(http::Exchange&)>;

// GET /audit: {"seq", "hash", "written", "suppressed", "lost"}. The events themselves are read from
// the files. `log` outlives the routes.
std::vector<http::Route> audit_routes(const AuditLog& log, Refusal refuse);

}  // namespace pons::audit
