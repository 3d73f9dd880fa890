#include <algorithm>

#include "chat/chat.h"

namespace pons::models::chat {

namespace {

// No provider is believed more tokens than this, so that sums cannot overflow.
constexpr std::int64_t kTokensMax = 1'000'000'000'000;

std::optional<std::int64_t> tokens_at(const std::optional<JsonNode>& node, std::string_view key) {
  if (!node) return std::nullopt;
  const auto number = node->integer_at(key);
  if (!number || !*number) return std::nullopt;
  return std::clamp<std::int64_t>(**number, 0, kTokensMax);
}

// The first that is said: OpenAI's own place, then those of other servers.
std::int64_t cache_read_of(const JsonNode& usage, const std::optional<JsonNode>& prompt) {
  if (const auto said = tokens_at(prompt, "cached_tokens")) return *said;
  for (const char* const name :
       {"cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"})
    if (const auto said = tokens_at(usage, name)) return *said;
  return 0;
}

std::int64_t cache_write_of(const JsonNode& usage, const std::optional<JsonNode>& prompt) {
  if (const auto said = tokens_at(prompt, "cache_write_tokens")) return *said;
  return tokens_at(usage, "cache_creation_input_tokens").value_or(0);
}

}  // namespace

Usage read_usage(const JsonNode& usage) {
  const auto prompt_details = usage.find("prompt_tokens_details");
  const auto output_details = usage.find("completion_tokens_details");
  const std::int64_t prompt = tokens_at(usage, "prompt_tokens").value_or(0);
  Usage read;
  read.cache_read = std::min(cache_read_of(usage, prompt_details), prompt);
  read.cache_write = std::min(cache_write_of(usage, prompt_details), prompt - read.cache_read);
  read.input = prompt - read.cache_read - read.cache_write;
  read.output = tokens_at(usage, "completion_tokens").value_or(0);
  read.reasoning = tokens_at(output_details, "reasoning_tokens");
  // Some servers count reasoning beside completion_tokens: only the total has it.
  if (const auto total = tokens_at(usage, "total_tokens"); total && *total > prompt + read.output)
    read.output = *total - prompt;
  return read;
}

void write_usage(JsonWriter& json, const Usage& usage) {
  json.begin_object()
      .field("prompt_tokens", usage.prompt())
      .field("completion_tokens", usage.output)
      .field("total_tokens", usage.prompt() + usage.output)
      .key("prompt_tokens_details")
      .begin_object()
      .field("cached_tokens", usage.cache_read);
  if (const auto written = usage.cache_write + usage.cache_write_hour; written > 0)
    json.field("cache_write_tokens", written);
  json.end_object();
  if (usage.reasoning)
    json.key("completion_tokens_details")
        .begin_object()
        .field("reasoning_tokens", *usage.reasoning)
        .end_object();
  json.end_object();
}

}  // namespace pons::models::chat
