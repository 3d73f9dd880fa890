#pragma once

#include <vector>

#include "attachments.h"
#include "pons/http/router.h"

namespace pons::egress {

// Of a text that is looked through: as long as an answer of a model or an output that is kept.
inline constexpr std::size_t kRedactedBytesMax = 32 << 20;

// For the warden:    PUT and DELETE /sandboxes/{key}, PUT /sandboxes (which of them are alive)
// For the operator:  GET /sandboxes, PUT /sandboxes/{id}/policy, PUT /environments, POST /explain,
//                    GET /access-requests, POST /access-requests/{id}/close
// For callers of the API, too: GET and PUT /sandboxes/{id}/policy
// For the brain:     POST /carry (carrier.h)
// For every role:    POST /scan, POST /redact?more=1&sandboxes=ID,ID
std::vector<http::Route> egress_routes(Boundary& boundary, Attachments& attachments);

}  // namespace pons::egress
