#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "responses/responses.h"

namespace pons::models::responses {

namespace {

bool contains_ignoring_case(std::string_view text, std::string_view word) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;  // words are in lower case
  };
  return !std::ranges::search(text, word, same).empty();
}

// How providers say that a prompt does not fit.
constexpr std::array<std::string_view, 14> kContextWords = {
    "context_length_exceeded",
    "maximum context length",                // OpenAI, vLLM, DeepSeek
    "context window",                        // OpenAI Responses
    "prompt is too long",                    // Anthropic
    "exceed context limit",                  // Anthropic, with max_tokens
    "input is too long",                     // Bedrock
    "exceed_context_size_error",             // llama.cpp
    "available context size",                // llama.cpp
    "model's context length",                // SGLang
    "maximum prompt length",                 // xAI
    "exceeds the maximum number of tokens",  // Gemini
    "too many tokens",
    "reduce the length of",
    "context size has been exceeded",  // LM Studio
};

bool says_context_length(std::string_view text) {
  return std::ranges::any_of(
      kContextWords, [&](std::string_view word) { return contains_ignoring_case(text, word); });
}

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

Failing kind_of_status(int status) {
  switch (status) {
    case 403:
      return Failing::kPermission;
    case 404:
      return Failing::kNotFound;
    case 408:
    case 504:
      return Failing::kTimeout;
    case 413:
      return Failing::kTooLarge;
    case 429:
      return Failing::kRateLimit;
    case 503:
    case 529:
      return Failing::kOverloaded;
    default:
      return status >= 400 && status < 500 ? Failing::kInvalidRequest : Failing::kUpstream;
  }
}

Failing kind_of_code(std::string_view code) {
  if (code == "rate_limit_exceeded" || code == "insufficient_quota") return Failing::kRateLimit;
  if (code == "server_is_overloaded" || code == "slow_down" || code == "overloaded_error")
    return Failing::kOverloaded;
  if (code.starts_with("invalid_") || code.starts_with("image_") || code.ends_with("_policy"))
    return Failing::kInvalidRequest;
  return Failing::kUpstream;
}

struct Form {
  int status;
  std::string_view type;
  std::string_view code;
};

Form form_of(Failing kind) {
  switch (kind) {
    case Failing::kInvalidRequest:
      return {400, "invalid_request_error", ""};
    case Failing::kAuthentication:
      return {401, "invalid_request_error", "invalid_api_key"};
    case Failing::kPermission:
      return {403, "invalid_request_error", "permission_denied"};
    case Failing::kNotFound:
      return {404, "invalid_request_error", "model_not_found"};
    case Failing::kTooLarge:
      return {413, "invalid_request_error", "request_too_large"};
    case Failing::kContextLength:
      return {400, "invalid_request_error", "context_length_exceeded"};
    case Failing::kRateLimit:
      return {429, "rate_limit_error", "rate_limit_exceeded"};
    case Failing::kBudget:
      return {429, "insufficient_quota", "insufficient_quota"};
    case Failing::kOverloaded:
      return {503, "server_error", "server_is_overloaded"};
    case Failing::kTimeout:
      return {504, "server_error", "timeout"};
    case Failing::kUpstream:
      break;
  }
  return {502, "api_error", "server_error"};
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
  return failure.code.empty() ? form_of(failure.kind).code : std::string_view(failure.code);
}

ErrorBody write_error(const Failure& failure) {
  const Form form = form_of(failure.kind);
  ErrorBody error{.status = form.status};
  JsonWriter json(error.body);
  json.begin_object().key("error").begin_object();
  json.field("message", failure.message).field("type", form.type).key("param").null();
  const auto code = failure_code(failure);
  json.key("code");
  code.empty() ? json.null() : json.string(code);
  json.end_object().end_object();
  return error;
}

}  // namespace pons::models::responses
