#pragma once

#include "model_call.h"

namespace pons::gateway {

// Who calls. Other roles have found out and say so; whoever comes over a network shows a key.
// kDenied: nobody who may.
Task<Result<Caller>> identify_caller(Models& models, const http::Exchange& exchange);

}  // namespace pons::gateway
