#include "messages/usage.h"

#include <algorithm>
#include <array>
#include <utility>

namespace pons::models::messages {

namespace {

// More than any model reads or writes, and small enough to be added up.
constexpr std::int64_t kTokensMax = std::int64_t{1} << 48;

std::optional<std::int64_t> count_at(const JsonNode& holder, std::string_view key) {
  const auto number = holder.integer_at(key);
  if (!number || !*number) return std::nullopt;
  return std::clamp<std::int64_t>(**number, 0, kTokensMax);
}

void raise(std::int64_t& count, const JsonNode& holder, std::string_view key) {
  if (const auto seen = count_at(holder, key)) count = std::max(count, *seen);
}

constexpr std::array<std::pair<Stop, std::string_view>, 7> kReasons = {
    {{Stop::kEnd, "end_turn"},
     {Stop::kMaxTokens, "max_tokens"},
     {Stop::kToolUse, "tool_use"},
     {Stop::kStopSequence, "stop_sequence"},
     {Stop::kRefusal, "refusal"},
     {Stop::kPause, "pause_turn"},
     {Stop::kContextWindow, "model_context_window_exceeded"}}};

}  // namespace

void UsageCount::see(const JsonNode& usage) {
  raise(input_, usage, "input_tokens");
  raise(output_, usage, "output_tokens");
  raise(cache_read_, usage, "cache_read_input_tokens");
  raise(cache_write_, usage, "cache_creation_input_tokens");
  if (const auto creation = usage.find("cache_creation")) {
    raise(cache_write_hour_, *creation, "ephemeral_1h_input_tokens");
    const auto minutes = count_at(*creation, "ephemeral_5m_input_tokens").value_or(0);
    cache_write_ = std::max(cache_write_, std::min(minutes + cache_write_hour_, kTokensMax));
  }
  if (const auto details = usage.find("output_tokens_details"))
    if (const auto thinking = count_at(*details, "thinking_tokens"))
      thinking_ = std::max(thinking_.value_or(0), *thinking);
  if (const auto tools = usage.find("server_tool_use"))
    raise(searches_, *tools, "web_search_requests");
}

Usage UsageCount::usage() const {
  return {.input = input_,
          .cache_read = cache_read_,
          .cache_write = std::max<std::int64_t>(cache_write_ - cache_write_hour_, 0),
          .cache_write_hour = cache_write_hour_,
          .output = output_,
          .reasoning = thinking_,
          .searches = searches_};
}

void write_usage(JsonWriter& json, const Usage& usage) {
  json.begin_object().field("input_tokens", usage.input);
  json.field("cache_creation_input_tokens", usage.cache_write + usage.cache_write_hour);
  json.field("cache_read_input_tokens", usage.cache_read).key("cache_creation").begin_object();
  json.field("ephemeral_5m_input_tokens", usage.cache_write);
  json.field("ephemeral_1h_input_tokens", usage.cache_write_hour).end_object();
  json.field("output_tokens", usage.output);
  if (usage.reasoning)
    json.key("output_tokens_details")
        .begin_object()
        .field("thinking_tokens", *usage.reasoning)
        .end_object();
  if (usage.searches > 0)
    json.key("server_tool_use")
        .begin_object()
        .field("web_search_requests", usage.searches)
        .end_object();
  json.end_object();
}

Stop stop_of(std::string_view reason) {
  if (reason == "compaction") return Stop::kPause;
  for (const auto& [stop, name] : kReasons)
    if (name == reason) return stop;
  return Stop::kEnd;
}

std::string_view reason_of(Stop stop) {
  for (const auto& [known, name] : kReasons)
    if (known == stop) return name;
  return "end_turn";
}

}  // namespace pons::models::messages
