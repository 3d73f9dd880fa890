#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pons/base/json.h"
#include "pons/base/result.h"
#include "pons/http/exchange.h"

// The words of a request to the warden, and of its answer.

namespace pons::warden {

// The named value of the query, decoded; empty when it is not there. kInvalid when it is broken.
Result<std::string> query_text(std::string_view query, std::string_view name);
Result<std::uint64_t> query_number(std::string_view query, std::string_view name,
                                   std::uint64_t otherwise);
Result<bool> query_flag(std::string_view query, std::string_view name, bool otherwise);

Task<Result<Json>> read_json_body(http::Exchange& exchange);

void respond_json(http::Exchange& exchange, int status, const Json& body);
void respond_empty(http::Exchange& exchange);  // 204
void respond_error(http::Exchange& exchange, const Error& error);

}  // namespace pons::warden
