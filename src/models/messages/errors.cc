#include "messages/errors.h"

#include <algorithm>
#include <array>

#include "failures.h"
#include "json_writer.h"
#include "messages/wire.h"
#include "pons/base/text.h"

namespace pons::models::messages {

namespace {

struct Kind {
  Failing kind;
  std::string_view type;
  int status;
};
constexpr std::array<Kind, 11> kKinds = {{{Failing::kInvalidRequest, "invalid_request_error", 400},
                                          {Failing::kAuthentication, "authentication_error", 401},
                                          {Failing::kPermission, "permission_error", 403},
                                          {Failing::kNotFound, "not_found_error", 404},
                                          {Failing::kTooLarge, "request_too_large", 413},
                                          {Failing::kRateLimit, "rate_limit_error", 429},
                                          {Failing::kOverloaded, "overloaded_error", 529},
                                          {Failing::kTimeout, "timeout_error", 504},
                                          {Failing::kUpstream, "api_error", 502},
                                          {Failing::kBudget, "rate_limit_error", 429},
                                          {Failing::kContextLength, "invalid_request_error", 400}}};

constexpr std::string_view kTooLong = "prompt is too long";
constexpr std::size_t kMessageBytesMax = 2'000;

// A type says more than a status; api_error says nothing.
Failing kind_of(std::string_view type, int status) {
  for (const Kind& known : kKinds)
    if (known.type == type && known.kind != Failing::kUpstream) return known.kind;
  return kind_of_status(status);
}

std::string shortened(std::string_view text) {
  std::size_t size = std::min(text.size(), kMessageBytesMax);
  while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80)
    --size;
  return std::string(text.substr(0, size));
}

Failure failure_with(Failing kind, std::string_view message) {
  if (kind == Failing::kAuthentication || kind == Failing::kPermission)
    // The key is the gateway's: the caller can do nothing about it, and need not read of it.
    return {.kind = Failing::kUpstream,
            .message = "the provider refused the credential that the gateway has for it"};
  if ((kind == Failing::kInvalidRequest || kind == Failing::kTooLarge) &&
      says_context_length(message))
    kind = Failing::kContextLength;
  if (message.empty()) message = "the provider failed and gave no reason";
  return {.kind = kind, .message = shortened(message)};
}

Failing refused_credential(int status, Failing kind) {
  return status == 401 || status == 402 || status == 403 ? Failing::kAuthentication : kind;
}

}  // namespace

Failure failure_of(const JsonNode& body, int status) {
  std::string_view type;
  std::string_view message;
  const auto error = body.find("error");
  if (error && error->is_string()) {
    message = error->as_string().value();
  } else {
    const JsonNode& holder = error ? *error : body;
    type = holder.string_or("type", "").value_or("");
    message = holder.string_or("message", "").value_or("");
  }
  Failing kind = refused_credential(status, kind_of(type, status));
  if (error && error->string_or("code", "").value_or("") == "context_length_exceeded")
    kind = Failing::kContextLength;
  return failure_with(kind, message);
}

std::string_view error_type_of(Failing kind) {
  return std::ranges::find(kKinds, kind, &Kind::kind)->type;
}

std::string message_of(const Failure& failure) {
  if (failure.kind != Failing::kContextLength || has_words(failure.message, kTooLong))
    return failure.message;
  return std::string(kTooLong) + ": " + failure.message;
}

Failure read_error(int status, std::string_view body) {
  JsonDocument document;
  if (const auto root = document.parse(body); root && root->is_object())
    return failure_of(*root, status);
  const Failing kind = refused_credential(status, kind_of_status(status));
  const std::string_view text = trim(body);
  const bool is_for_people = is_valid_utf8(text) && !text.starts_with('<');  // no page of a proxy
  return failure_with(kind, is_for_people ? text : std::string_view());
}

ErrorBody write_error(const Failure& failure, std::string_view request_id) {
  ErrorBody error{.status = std::ranges::find(kKinds, failure.kind, &Kind::kind)->status,
                  .body = {}};
  JsonWriter json(error.body);
  json.begin_object().field("type", "error").key("error").begin_object();
  json.field("type", error_type_of(failure.kind)).field("message", message_of(failure));
  json.end_object().key("request_id");
  if (request_id.empty())
    json.null();
  else
    json.string(request_id);
  json.end_object();
  return error;
}

}  // namespace pons::models::messages
