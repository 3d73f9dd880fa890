#pragma once

#include <string>

#include "pons/base/result.h"
#include "pons/http/exchange.h"

namespace pons::brain {

// Whose a request is. Who asks has been found out by the front; the operator says ?project=NAME.
Result<std::string> project_of(const http::Exchange& exchange);

}  // namespace pons::brain
