#include <fmt/format.h>

#include "chat/chat.h"
#include "failures.h"
#include "pons/base/text.h"

namespace pons::models::chat {

namespace {

constexpr std::size_t kMessageBytesMax = 2000;

bool is_context_length(const Failure& failure, std::string_view type) {
  return says_context_length(failure.code) || says_context_length(type) ||
         says_context_length(failure.message);
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

Failing kind_of_words(const Said& said) {
  const auto any = [&](std::string_view word) {
    return has_words(said.type, word) || has_words(said.code, word);
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
  else if (failure.kind == Failing::kUpstream && has_words(said.type, "overloaded"))
    failure.kind = Failing::kOverloaded;
  return failure;
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
  return write_openai_error(failure);
}

}  // namespace pons::models::chat
