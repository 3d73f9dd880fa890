#pragma once

#include <vector>

#include "model_call.h"
#include "pons/http/router.h"

namespace pons::gateway {

// The endpoints for models, for every role that may call them and for clients on trusted networks.
std::vector<http::Route> model_routes(Models& models);

// Keys, usage and models for the operator.
std::vector<http::Route> operator_routes(Models& models);

// POST /sandbox-time, for the brain: [{"id", "project", "seconds"}] of sandboxes that have ended,
// each charged to its project once, however often it is told.
std::vector<http::Route> sandbox_routes(Models& models);

}  // namespace pons::gateway
