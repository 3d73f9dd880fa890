#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "responses/responses.h"

namespace pons::models::responses {

namespace {

constexpr std::array<std::string_view, 13> kKnown = {
    "model",       "input", "instructions", "tools", "tool_choice", "parallel_tool_calls",
    "temperature", "top_p", "reasoning",    "text",  "user",        "max_output_tokens",
    "stream"};

// Said, but the same as if it were not: kept out of the extras, which others may have to refuse.
bool is_default(std::string_view key, const JsonNode& value) {
  if (value.is_null()) return true;
  if (key == "background") return value.as_bool().value_or(true) == false;
  if (key == "top_logprobs") return value.as_integer().value_or(1) == 0;
  return false;
}

Result<void> read_extras(const JsonNode& root, std::vector<ExtraField>& extras) {
  return root.for_each_field([&](std::string_view key, const JsonNode& value) -> Result<void> {
    if (std::ranges::find(kKnown, key) != kKnown.end() || is_default(key, value)) return {};
    // Dotted names are those of nested extras.
    if (key.starts_with("reasoning.") || key.starts_with("text."))
      return value.error("is not a field of a request");
    extras.push_back({.name = std::string(key), .json = value.raw()});
    return {};
  });
}

// Fields of an object that has a place in the form, but not for all that is in it.
Result<void> read_nested_extras(const JsonNode& object, std::string_view prefix,
                                std::initializer_list<std::string_view> known,
                                std::vector<ExtraField>& extras) {
  return object.for_each_field([&](std::string_view key, const JsonNode& value) -> Result<void> {
    if (value.is_null() || std::ranges::find(known, key) != known.end()) return {};
    extras.push_back({.name = fmt::format("{}.{}", prefix, key), .json = value.raw()});
    return {};
  });
}

Result<void> read_reasoning_wish(const JsonNode& reasoning, Request& request) {
  ThinkingWish& wish = request.thinking;
  wish.effort = TRY(reasoning.string_or("effort", ""));
  wish.summary = TRY(reasoning.string_or("summary", ""));
  if (wish.effort == "none")
    wish.kind = ThinkingWish::Kind::kOff;
  else if (!wish.effort.empty())
    wish.kind = ThinkingWish::Kind::kEffort;
  return read_nested_extras(reasoning, "reasoning", {"effort", "summary"}, request.extras);
}

Result<void> read_format(const JsonNode& format, OutputFormat& out) {
  const auto type = TRY(format.string_at("type"));
  if (type == "text") return {};
  if (type == "json_object") {
    out.kind = OutputFormat::Kind::kJson;
    return {};
  }
  if (type != "json_schema")
    return format.error(fmt::format("\"{}\" is not a kind of format", type));
  out.kind = OutputFormat::Kind::kSchema;
  out.name = TRY(format.string_at("name"));
  out.description = TRY(format.string_or("description", ""));
  out.strict = TRY(format.bool_at("strict"));
  const auto schema = TRY(format.at("schema"));
  TRY_VOID(schema.expect_object());
  out.schema = schema.raw();
  return {};
}

Result<void> read_text_wish(const JsonNode& text, Request& request) {
  if (const auto format = text.find("format")) TRY_VOID(read_format(*format, request.format));
  return read_nested_extras(text, "text", {"format"}, request.extras);
}

Result<void> read_conversation(const JsonNode& root, Request& request) {
  const auto instructions = TRY(root.string_or("instructions", ""));
  if (!instructions.empty()) {
    Message message{.role = Role::kSystem, .is_instructions = true};
    message.parts.push_back({.content = TextPart{.text = std::string(instructions)}});
    request.messages.push_back(std::move(message));
  }
  if (const auto input = root.find("input")) return read_input(*input, request.messages);
  for (const char* elsewhere : {"prompt", "conversation", "previous_response_id"})
    if (root.find(elsewhere)) return {};
  return root.error("\"input\" is missing");
}

}  // namespace

Result<Request> read_request(std::string_view body) {
  JsonDocument document;
  const JsonNode root = TRY(document.parse(body));
  TRY_VOID(root.expect_object());
  Request request{.protocol = Protocol::kResponses};
  request.model = TRY(root.string_at("model"));
  TRY_VOID(read_conversation(root, request));
  if (const auto tools = root.find("tools")) TRY_VOID(read_tools(*tools, request.tools));
  request.parallel_tools = TRY(root.bool_at("parallel_tool_calls"));
  request.output_tokens_max = TRY(root.integer_at("max_output_tokens"));
  request.temperature = TRY(root.number_at("temperature"));
  request.top_p = TRY(root.number_at("top_p"));
  request.user = TRY(root.string_or("user", ""));
  request.stream = TRY(root.bool_at("stream")).value_or(false);
  TRY_VOID(read_extras(root, request.extras));
  if (const auto reasoning = root.find("reasoning"))
    TRY_VOID(read_reasoning_wish(*reasoning, request));
  if (const auto text = root.find("text")) TRY_VOID(read_text_wish(*text, request));
  if (const auto choice = root.find("tool_choice")) TRY_VOID(read_tool_choice(*choice, request));
  return request;
}

}  // namespace pons::models::responses
