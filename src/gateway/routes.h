#pragma once

#include <vector>

#include "model_call.h"
#include "pons/http/router.h"

namespace pons::gateway {

// The endpoints for models, for every role that may call them and for clients on trusted networks.
std::vector<http::Route> model_routes(Models& models);

// Keys, usage and models for the operator.
std::vector<http::Route> operator_routes(Models& models);

}  // namespace pons::gateway
