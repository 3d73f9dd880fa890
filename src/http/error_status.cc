#include "pons/http/error_status.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::http {

namespace {

// For a status, the first code that has it is the likeliest meaning.
constexpr std::array<std::pair<ErrorCode, int>, 10> kStatuses = {{
    {ErrorCode::kInvalid, 400},
    {ErrorCode::kDenied, 403},
    {ErrorCode::kNotFound, 404},
    {ErrorCode::kConflict, 409},
    {ErrorCode::kLimit, 429},
    {ErrorCode::kInternal, 500},
    {ErrorCode::kIo, 500},
    {ErrorCode::kUnsupported, 501},
    {ErrorCode::kUnavailable, 503},
    {ErrorCode::kTimeout, 504},
}};

}  // namespace

int status_of(ErrorCode code) {
  for (const auto& [known, status] : kStatuses)
    if (known == code) return status;
  return 500;
}

ErrorCode code_of(int status, std::string_view type) {
  for (const auto& [code, unused] : kStatuses)
    if (to_string(code) == type) return code;
  for (const auto& [code, known] : kStatuses)
    if (known == status) return code;
  // What a server's own limits answer before any handler runs.
  constexpr int kContentTooLarge = 413;
  if (status == kContentTooLarge) return ErrorCode::kLimit;
  if (status >= 400 && status < 500) return ErrorCode::kInvalid;
  return ErrorCode::kUnavailable;
}

Error error_of(const char* step, int status, std::string_view body) {
  std::string type;
  std::string message = fmt::format("the answer was {} {}", status, reason_phrase(status));
  const auto json = parse_json(body);
  if (json && json->is_object() && json->contains("error") && (*json)["error"].is_object()) {
    const Json& error = (*json)["error"];
    if (error.contains("type") && error["type"].is_string()) type = error["type"];
    if (error.contains("message") && error["message"].is_string()) message = error["message"];
  }
  return make_error(code_of(status, type), step, std::move(message));
}

Response error_response(const Error& error) {
  return error_response(status_of(error.code), to_string(error.code), error.describe());
}

}  // namespace pons::http
