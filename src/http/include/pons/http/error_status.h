#pragma once

#include <string_view>

#include "pons/base/result.h"
#include "pons/http/exchange.h"

// How our own processes tell each other of a failure: {"error":{"type":…,"message":…}} with the
// status, and back again.

namespace pons::http {

int status_of(ErrorCode code);
// `type` as it stands in the body; empty when there was none.
ErrorCode code_of(int status, std::string_view type);
// The error that the other side met, as far as its answer tells.
Error error_of(const char* step, int status, std::string_view body);
Response error_response(const Error& error);

}  // namespace pons::http
