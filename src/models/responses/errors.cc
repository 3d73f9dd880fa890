#include <fmt/format.h>

#include "failures.h"
#include "responses/responses.h"

namespace pons::models::responses {

namespace {

struct Words {
  std::string message;
  std::string code;
  std::string type;
};

std::string text_at(const JsonNode& node, std::string_view key) {
  const auto found = node.find(key);
  if (!found) return {};
  if (const auto text = found->as_string()) return std::string(*text);
  return found->is_object() || found->is_array() ? std::string() : found->raw();
}

Words words_of(const JsonNode& error) {
  if (const auto text = error.as_string()) return {.message = std::string(*text)};
  Words words{.message = text_at(error, "message"),
              .code = text_at(error, "code"),
              .type = text_at(error, "type")};
  if (words.message.empty()) words.message = text_at(error, "detail");
  return words;
}

// {"error":{…}}, {"error":"…"}, or the fields at the top, as some servers do.
Words read_words(std::string_view body) {
  JsonDocument document;
  const auto root = document.parse(body);
  if (!root) return {};
  const auto error = root->find("error");
  return words_of(error ? *error : *root);
}

Failing kind_of_code(std::string_view code) {
  if (code == "rate_limit_exceeded" || code == "insufficient_quota") return Failing::kRateLimit;
  if (code == "server_is_overloaded" || code == "slow_down" || code == "overloaded_error")
    return Failing::kOverloaded;
  if (code.starts_with("invalid_") || code.starts_with("image_") || code.ends_with("_policy"))
    return Failing::kInvalidRequest;
  return Failing::kUpstream;
}

}  // namespace

Failure read_failure(const JsonNode& error) {
  Words words = words_of(error);
  if (words.code == "invalid_api_key") return read_error(401, {});
  Failure failure{.kind = kind_of_code(words.code.empty() ? words.type : words.code),
                  .message = std::move(words.message),
                  .code = std::move(words.code)};
  if (says_context_length(failure.code) || says_context_length(failure.message))
    failure.kind = Failing::kContextLength;
  if (failure.message.empty()) failure.message = "the provider reports a failure without words";
  return failure;
}

Failure read_error(int status, std::string_view body) {
  // Whose key that is, the caller is not to know: his own is fine.
  if (status == 401 || status == 402)
    return {.kind = Failing::kUpstream,
            .message = "the provider does not accept the credential it was given"};
  Words words = read_words(body);
  Failure failure{.kind = kind_of_status(status),
                  .message = std::move(words.message),
                  .code = std::move(words.code)};
  const bool may_be_length = failure.kind == Failing::kInvalidRequest ||
                             failure.kind == Failing::kTooLarge ||
                             failure.kind == Failing::kUpstream;
  if (may_be_length && (says_context_length(failure.code) || says_context_length(words.type) ||
                        says_context_length(failure.message)))
    failure.kind = Failing::kContextLength;
  if (failure.message.empty())
    failure.message = fmt::format("the provider answered with status {}", status);
  return failure;
}

std::string_view failure_code(const Failure& failure) {
  return openai_code(failure);
}

ErrorBody write_error(const Failure& failure) {
  return write_openai_error(failure);
}

}  // namespace pons::models::responses
