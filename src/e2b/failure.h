#pragma once

#include <cstdint>
#include <string>

#include "pons/base/result.h"
#include "pons/http/exchange.h"

// Failures outside of calls, in the words that E2B's SDKs know.

namespace pons::e2b {

// {"code":…,"message":…}
void respond_failure(http::Exchange& exchange, int status, const std::string& message);
void respond_failure(http::Exchange& exchange, const Error& error);
// 502: the sandbox is not there, or sleeps.
void respond_gone(http::Exchange& exchange, const std::string& sandbox);
// 502: it is there, and nobody listens.
void respond_port_closed(http::Exchange& exchange, const std::string& sandbox, std::uint16_t port);

}  // namespace pons::e2b
