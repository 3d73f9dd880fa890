#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "chat/chat.h"
#include "pons/base/text.h"

namespace pons::models::chat {

namespace {

constexpr std::size_t kMessageBytesMax = 2000;

// How providers say that the prompt does not fit, in lower case.
constexpr std::array<std::string_view, 14> kContextWords = {
    "context_length_exceeded",
    "maximum context length",                        // OpenAI, vLLM, DeepSeek, OpenRouter
    "context length exceeded",                       // LM Studio and others
    "exceeds the available context size",            // llama.cpp
    "exceed_context_size_error",                     // llama.cpp, as its type
    "prompt is too long",                            // Anthropic
    "input is too long",                             // Bedrock
    "exceeds the maximum number of tokens allowed",  // Gemini
    "longer than the model's context length",        // SGLang
    "context window",                                // newer OpenAI models, Groq
    "maximum prompt length",                         // xAI
    "too many tokens",                               // Cohere
    "exceeds the model's maximum context",           // Together
    "exceeded model token limit"};                   // Moonshot

bool has(std::string_view text, std::string_view words) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return !std::ranges::search(text, words, {}, lower).empty();
}

bool is_context_length(const Failure& failure, std::string_view type) {
  return std::ranges::any_of(kContextWords, [&](std::string_view words) {
    return has(failure.code, words) || has(type, words) || has(failure.message, words);
  });
}

// What a provider said of its failure, wherever it stands.
struct Said {
  std::string_view message;
  std::string_view type;
  std::string code;
  int status = 0;  // OpenRouter's and Gemini's code is one
};

std::string_view text_at(const JsonNode& node, std::string_view key) {
  const auto text = node.string_or(key, "");
  return text ? *text : std::string_view();
}

Said said_in(const JsonNode& error) {
  Said said{.message = text_at(error, "message"), .type = text_at(error, "type")};
  if (said.message.empty()) said.message = text_at(error, "detail");
  if (const auto code = error.find("code")) {
    said.code = text_at(error, "code");
    if (const auto number = code->as_integer(); number && *number >= 400 && *number < 600)
      said.status = static_cast<int>(*number);
  }
  return said;
}

Failing kind_of_status(int status) {
  switch (status) {
    case 401:
    case 402:
      return Failing::kUpstream;  // ours, not the caller's: his own key is good
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

Failing kind_of_words(const Said& said) {
  const auto any = [&](std::string_view word) {
    return has(said.type, word) || has(said.code, word);
  };
  if (any("rate_limit") || any("insufficient_quota")) return Failing::kRateLimit;
  if (any("overloaded") || any("unavailable")) return Failing::kOverloaded;
  if (any("timeout")) return Failing::kTimeout;
  if (any("invalid_request") || any("badrequest")) return Failing::kInvalidRequest;
  return Failing::kUpstream;
}

Failure failure_of(int status, const Said& said) {
  Failure failure{.message = std::string(said.message.substr(0, kMessageBytesMax)),
                  .code = said.code.substr(0, 64)};
  // A cut may fall into a code point.
  while (!is_valid_utf8(failure.message)) failure.message.pop_back();
  while (!is_valid_utf8(failure.code)) failure.code.pop_back();
  if (failure.message.empty())
    failure.message = status == 0 ? "the provider failed without a word"
                                  : fmt::format("the provider answered with status {}", status);
  if (status == 0) status = said.status;
  failure.kind = status == 0 ? kind_of_words(said) : kind_of_status(status);
  if (is_context_length(failure, said.type) && failure.kind != Failing::kRateLimit)
    failure.kind = Failing::kContextLength;
  else if (failure.kind == Failing::kUpstream && has(said.type, "overloaded"))
    failure.kind = Failing::kOverloaded;
  return failure;
}

struct Shape {
  int status;
  const char* type;
  const char* code;
};

Shape shape_of(Failing kind) {
  switch (kind) {
    case Failing::kInvalidRequest:
      return {400, "invalid_request_error", ""};
    case Failing::kAuthentication:
      return {401, "invalid_request_error", "invalid_api_key"};
    case Failing::kPermission:
      return {403, "permission_error", "permission_denied"};
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
      return {503, "server_error", "overloaded"};
    case Failing::kTimeout:
      return {504, "server_error", "timeout"};
    case Failing::kUpstream:
      break;
  }
  return {502, "server_error", "upstream_error"};
}

}  // namespace

std::optional<Failure> find_failure(const JsonNode& root) {
  const auto error = root.find("error");
  if (!error) {
    // Older vLLM has no level between.
    if (text_at(root, "object") != "error") return std::nullopt;
    return failure_of(0, said_in(root));
  }
  if (error->is_string()) return failure_of(0, {.message = error->as_string().value()});
  return failure_of(0, said_in(*error));
}

Failure read_error(int status, std::string_view body) {
  JsonDocument document;
  auto root = document.parse(body);
  if (!root) {
    const std::string_view text = trim(body).substr(0, kMessageBytesMax);
    // A page of HTML says nothing to the caller of a model.
    return failure_of(
        status,
        {.message = text.starts_with('<') || !is_valid_utf8(text) ? std::string_view() : text});
  }
  // Gemini's is in a list.
  simdjson::dom::element first;
  if (root->is_array() && root->value().at(0).get(first) == simdjson::SUCCESS)
    root = JsonNode(first);
  const auto error = root->find("error");
  if (!error) return failure_of(status, said_in(*root));
  if (error->is_string()) return failure_of(status, {.message = error->as_string().value()});
  return failure_of(status, said_in(*error));
}

ErrorBody write_error(const Failure& failure) {
  const Shape shape = shape_of(failure.kind);
  std::string message = failure.message;
  // Clients look for these words.
  if (failure.kind == Failing::kContextLength && !has(message, "maximum context length"))
    message = "This model's maximum context length is exceeded: " + message;
  const bool fixed = failure.kind == Failing::kContextLength || failure.kind == Failing::kBudget;
  const std::string_view code =
      failure.code.empty() || fixed ? std::string_view(shape.code) : failure.code;
  ErrorBody error{.status = shape.status, .body = {}};
  JsonWriter json(error.body);
  json.begin_object().key("error").begin_object();
  json.field("message", message).field("type", shape.type).key("param").null().key("code");
  code.empty() ? json.null() : json.string(code);
  json.end_object().end_object();
  return error;
}

}  // namespace pons::models::chat
