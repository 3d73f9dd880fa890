#pragma once

#include <functional>
#include <vector>

#include "pons/http/router.h"
#include "pons/vault/vault.h"

namespace pons::vault {

// True when the request was answered with a refusal: whoever wires the routes knows who may ask.
using Refusal = std::function<bool(http::Exchange&)>;

// The vault to its operator. No answer ever holds a value.
//   GET    /vault                 {"credentials": […], "damaged": […]}
//   GET    /vault/{name}          metadata
//   PUT    /vault/{name}          {"value", "preset" | "bindings", "scrub"}
//   POST   /vault/{name}/rotate   {"value", "grace_seconds"}
//   DELETE /vault/{name}
// `vault` outlives the routes.
std::vector<http::Route> vault_routes(Vault& vault, Refusal refuse);

}  // namespace pons::vault
