#include "pons/managed/reply.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::managed {

namespace {

struct Shape {
  int status;
  const char* type;
};

// A status of 500 and above is tried again by clients; what will never work must be below.
Shape shape_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kUnsupported:
      return {.status = 400, .type = "invalid_request_error"};
    case ErrorCode::kNotFound:
      return {.status = 404, .type = "not_found_error"};
    case ErrorCode::kDenied:
      return {.status = 403, .type = "permission_error"};
    case ErrorCode::kConflict:
      return {.status = 409, .type = "conflict_error"};
    case ErrorCode::kLimit:
      return {.status = 429, .type = "rate_limit_error"};
    case ErrorCode::kTimeout:
      return {.status = 504, .type = "timeout_error"};
    case ErrorCode::kUnavailable:
      return {.status = 503, .type = "overloaded_error"};
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return {.status = 500, .type = "api_error"};
}

}  // namespace

Refusal::Refusal(const Error& error)
    : status(shape_of(error.code).status),
      type(shape_of(error.code).type),
      message(error.message.empty() ? error.describe() : error.message) {}

Refusal no_such(std::string_view what) {
  return {404, "not_found_error", fmt::format("there is no {} of this id", what)};
}
Refusal bad_request(std::string message) {
  return {400, "invalid_request_error", std::move(message)};
}
Refusal conflict(std::string message) {
  return {409, "conflict_error", std::move(message)};
}
Refusal is_archived(std::string_view what) {
  return bad_request(
      fmt::format("the {} is archived: it can be read, and no longer changed", what));
}

http::Response answer_of(const Refusal& refusal, std::string_view request_id) {
  Json error = {{"type", refusal.type}, {"message", refusal.message}};
  if (!refusal.code.empty()) error["details"] = {{"error_code", refusal.code}};
  if (const auto details = parse_json(refusal.details); details && details->is_object())
    error["details"].update(*details);
  for (const auto& [name, value] : refusal.more) error[name] = value;
  Json body = {{"type", "error"}, {"error", std::move(error)}, {"request_id", nullptr}};
  if (!request_id.empty()) body["request_id"] = request_id;
  http::Response response{.status = refusal.status, .body = dump_json(body) + "\n"};
  if (refusal.status == 409 || refusal.is_final)
    response.fields.emplace_back("x-should-retry", "false");
  if (!refusal.is_final && (refusal.status == 429 || refusal.status == 503))
    response.fields.emplace_back("retry-after", "1");
  return response;
}

}  // namespace pons::managed
