#pragma once

#include <string_view>

#include "pons/base/result.h"
#include "pons/http/exchange.h"

namespace pons::gateway {

// Header fields as OTEL_EXPORTER_OTLP_HEADERS has them: NAME=VALUE,NAME=VALUE with percent-encoded
// values. No message repeats a value.
Result<http::OwnedFields> read_otlp_headers(std::string_view text);

}  // namespace pons::gateway
