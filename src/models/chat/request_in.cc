#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "chat/chat.h"

namespace pons::models::chat {

namespace {

constexpr std::array<std::string_view, 19> kKnown = {
    "model",      "messages",  "tools",           "tool_choice",           "parallel_tool_calls",
    "max_tokens", "top_p",     "temperature",     "max_completion_tokens", "top_k",
    "seed",       "stop",      "stream",          "reasoning_effort",      "stream_options",
    "user",       "functions", "response_format", "function_call"};

// Says what is so anyhow. Writers of other protocols must not stumble over it.
bool is_default(std::string_view key, std::string_view json) {
  return json == "null" || (key == "n" && json == "1") || (key == "logprobs" && json == "false") ||
         (key == "modalities" && json == "[\"text\"]");
}

Result<void> read_extras(const JsonNode& root, std::vector<ExtraField>& extras) {
  return root.for_each_field([&](std::string_view key, const JsonNode& value) -> Result<void> {
    if (std::ranges::find(kKnown, key) != kKnown.end()) return {};
    ExtraField extra{.name = std::string(key), .json = value.raw()};
    if (!is_default(key, extra.json)) extras.push_back(std::move(extra));
    return {};
  });
}

Result<void> read_stop(const JsonNode& stop, std::vector<std::string>& read) {
  const auto take = [&](const JsonNode& node) -> Result<void> {
    // An empty one stops nothing.
    if (const auto text = TRY(node.as_string()); !text.empty()) read.emplace_back(text);
    return {};
  };
  if (stop.is_string()) return take(stop);
  if (!stop.is_array()) return stop.error("must be a string or a list of strings");
  return stop.for_each(take);
}

Result<void> read_sampling(const JsonNode& root, Request& request) {
  request.temperature = TRY(root.number_at("temperature"));
  request.top_p = TRY(root.number_at("top_p"));
  request.top_k = TRY(root.integer_at("top_k"));
  request.seed = TRY(root.integer_at("seed"));
  if (const auto stop = root.find("stop")) TRY_VOID(read_stop(*stop, request.stop));
  // The newer name is the one that is meant when both are there.
  request.output_tokens_max = TRY(root.integer_at("max_completion_tokens"));
  request.has_newer_limit = request.output_tokens_max.has_value();
  const auto older = TRY(root.integer_at("max_tokens"));
  if (!request.output_tokens_max) request.output_tokens_max = older;
  if (request.output_tokens_max && *request.output_tokens_max < 1)
    return root.error("max_tokens: must be at least 1");
  return {};
}

Result<void> read_thinking(const JsonNode& root, ThinkingWish& wish) {
  const std::string_view effort = TRY(root.string_or("reasoning_effort", ""));
  if (effort.empty()) return {};
  if (effort == "none") {
    wish.kind = ThinkingWish::Kind::kOff;
    return {};
  }
  wish.kind = ThinkingWish::Kind::kEffort;
  wish.effort = effort;
  return {};
}

Result<void> read_format(const JsonNode& node, OutputFormat& format) {
  const std::string_view type = TRY(node.string_at("type"));
  if (type == "text") return {};
  if (type == "json_object") {
    format.kind = OutputFormat::Kind::kJson;
    return {};
  }
  if (type != "json_schema")
    return TRY(node.at("type"))
        .error(fmt::format("\"{}\" is not a format of answers", type.substr(0, 64)));
  const JsonNode said = TRY(node.at("json_schema"));
  format.kind = OutputFormat::Kind::kSchema;
  format.name = TRY(said.string_at("name"));
  if (format.name.empty()) return said.error("the name must not be empty");
  format.description = TRY(said.string_or("description", ""));
  format.strict = TRY(said.bool_at("strict"));
  if (const auto schema = said.find("schema")) {
    TRY_VOID(schema->expect_object());
    format.schema = schema->raw();
  }
  return {};
}

Result<void> read_stream(const JsonNode& root, Request& request) {
  request.stream = TRY(root.bool_at("stream")).value_or(false);
  if (!request.stream) return {};
  const auto options = root.find("stream_options");
  request.stream_usage = options && TRY(options->bool_at("include_usage")).value_or(false);
  return {};
}

}  // namespace

Result<Request> read_request(std::string_view body) {
  JsonDocument document;
  const JsonNode root = TRY(document.parse(body));
  TRY_VOID(root.expect_object());
  for (const char* const old : {"functions", "function_call"})
    if (const auto found = root.find(old))
      return found->error("is the old form of \"tools\" and \"tool_choice\": send those");
  Request request;
  request.protocol = Protocol::kChat;
  request.model = TRY(root.string_at("model"));
  const JsonNode messages = TRY(root.at("messages"));
  request.messages = TRY(read_messages(messages));
  TRY_VOID(read_tools(root, request));
  TRY_VOID(read_sampling(root, request));
  TRY_VOID(read_thinking(root, request.thinking));
  if (const auto format = root.find("response_format"))
    TRY_VOID(read_format(*format, request.format));
  request.user = TRY(root.string_or("user", ""));
  TRY_VOID(read_stream(root, request));
  TRY_VOID(read_extras(root, request.extras));
  return request;
}

}  // namespace pons::models::chat
