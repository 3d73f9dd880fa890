#include "failures.h"

#include <algorithm>
#include <array>

#include "json_writer.h"

namespace pons::models {

namespace {

// How providers say that the prompt does not fit, in lower case.
constexpr std::array<std::string_view, 18> kContextWords = {
    "context_length_exceeded",
    "maximum context length",                // OpenAI, vLLM, DeepSeek, OpenRouter
    "context length exceeded",               // LM Studio and others
    "context size has been exceeded",        // LM Studio
    "available context size",                // llama.cpp
    "exceed_context_size_error",             // llama.cpp, as its type
    "prompt is too long",                    // Anthropic
    "exceed context limit",                  // Anthropic, with max_tokens
    "input is too long",                     // Bedrock
    "input token count exceeds",             // Gemini
    "exceeds the maximum number of tokens",  // Gemini
    "model's context length",                // SGLang
    "context window",                        // newer OpenAI models, Groq
    "maximum prompt length",                 // xAI
    "too many tokens",                       // Cohere
    "reduce the length of",
    "model's maximum context",      // Together
    "exceeded model token limit"};  // Moonshot

struct Shape {
  int status;
  std::string_view type;
  std::string_view code;
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
      return {503, "server_error", "server_is_overloaded"};
    case Failing::kTimeout:
      return {504, "server_error", "timeout"};
    case Failing::kUpstream:
      break;
  }
  return {502, "server_error", "upstream_error"};
}

}  // namespace

bool has_words(std::string_view text, std::string_view words) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return !std::ranges::search(text, words, {}, lower).empty();
}

bool says_context_length(std::string_view text) {
  return std::ranges::any_of(kContextWords,
                             [&](std::string_view words) { return has_words(text, words); });
}

Failing kind_of_status(int status) {
  switch (status) {
    case 401:
    case 402:
    case 403:
      return Failing::kUpstream;
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

std::string_view openai_code(const Failure& failure) {
  // Programs look for these two, whatever a provider calls them.
  const bool fixed = failure.kind == Failing::kContextLength || failure.kind == Failing::kBudget;
  return failure.code.empty() || fixed ? shape_of(failure.kind).code
                                       : std::string_view(failure.code);
}

ErrorBody write_openai_error(const Failure& failure) {
  const Shape shape = shape_of(failure.kind);
  std::string message = failure.message;
  if (failure.kind == Failing::kContextLength && !has_words(message, "maximum context length"))
    message = "This model's maximum context length is exceeded: " + message;
  const std::string_view code = openai_code(failure);
  ErrorBody error{.status = shape.status, .body = {}};
  JsonWriter json(error.body);
  json.begin_object().key("error").begin_object();
  json.field("message", message).field("type", shape.type).key("param").null().key("code");
  code.empty() ? json.null() : json.string(code);
  json.end_object().end_object();
  return error;
}

}  // namespace pons::models
