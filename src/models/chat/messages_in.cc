#include <algorithm>
#include <array>
#include <span>
#include <unordered_set>

#include <fmt/format.h>

#include "chat/chat.h"

namespace pons::models::chat {

namespace {

constexpr std::array<std::string_view, 3> kSaid = {"role", "content", "cache_control"};
constexpr std::array<std::string_view, 4> kToolSaid = {"role", "content", "cache_control",
                                                       "tool_call_id"};
constexpr std::array<std::string_view, 9> kAssistantSaid = {
    "role",      "content",           "cache_control",     "refusal", "tool_calls",
    "reasoning", "reasoning_content", "reasoning_details", "audio"};

class MessageReader {
 public:
  Result<Message> read(const JsonNode& node);

 private:
  Result<void> read_assistant(const JsonNode& node, std::vector<Part>& parts);
  Result<void> read_result(const JsonNode& node, std::vector<Part>& parts) const;

  // A result does not say itself that its tool is free-form.
  std::unordered_set<std::string> free_form_calls_;
};

Result<void> read_extras(const JsonNode& node, std::span<const std::string_view> known,
                         std::vector<ExtraField>& extras) {
  return node.for_each_field([&](std::string_view key, const JsonNode& value) -> Result<void> {
    if (!value.is_null() && std::ranges::find(known, key) == known.end())
      extras.push_back({.name = std::string(key), .json = value.raw()});
    return {};
  });
}

Result<void> MessageReader::read_assistant(const JsonNode& node, std::vector<Part>& parts) {
  if (const auto old = node.find("function_call"))
    return old->error("is the old form of \"tool_calls\": send those");
  TRY_VOID(read_reasoning(node, parts));
  if (const auto content = node.find("content")) TRY_VOID(read_content(*content, parts));
  if (const auto refused = TRY(node.string_or("refusal", "")); !refused.empty())
    parts.push_back({.content = RefusalPart{.text = std::string(refused)}});
  if (const auto calls = node.find("tool_calls"))
    TRY_VOID(calls->for_each([&](const JsonNode& item) -> Result<void> {
      ToolCallPart call = TRY(read_tool_call(item));
      if (call.id.empty()) return item.error("\"id\" is missing");
      if (call.free_form) free_form_calls_.insert(call.id);
      parts.push_back({.content = std::move(call)});
      return {};
    }));
  if (const auto audio = node.find("audio"))
    parts.push_back({.content = OpaquePart{
                         .protocol = Protocol::kChat, .type = "audio", .json = audio->raw()}});
  return {};
}

Result<void> MessageReader::read_result(const JsonNode& node, std::vector<Part>& parts) const {
  ToolResultPart result;
  result.call_id = TRY(node.string_at("tool_call_id"));
  if (const auto content = node.find("content")) TRY_VOID(read_content(*content, result.content));
  result.free_form = free_form_calls_.contains(result.call_id);
  parts.push_back({.content = std::move(result)});
  return {};
}

Result<Message> MessageReader::read(const JsonNode& node) {
  Message message;
  const std::string_view role = TRY(node.string_at("role"));
  if (role == "assistant") {
    message.role = Role::kAssistant;
    TRY_VOID(read_assistant(node, message.parts));
    TRY_VOID(read_extras(node, kAssistantSaid, message.extras));
  } else if (role == "tool") {
    TRY_VOID(read_result(node, message.parts));
    TRY_VOID(read_extras(node, kToolSaid, message.extras));
  } else if (role == "system" || role == "developer" || role == "user") {
    message.role = role == "user"     ? Role::kUser
                   : role == "system" ? Role::kSystem
                                      : Role::kDeveloper;
    const JsonNode content = TRY(node.at("content"));
    TRY_VOID(read_content(content, message.parts));
    TRY_VOID(read_extras(node, kSaid, message.extras));
  } else if (role == "function") {
    return node.error("the role \"function\" is the old form of \"tool\": send that");
  } else {
    return TRY(node.at("role")).error(fmt::format("\"{}\" is not a role", role.substr(0, 64)));
  }
  // A hint for the whole message is one for its end.
  if (const auto cache = TRY(read_cache_hint(node)); cache && !message.parts.empty()) {
    Part& last = message.parts.back();
    if (!last.cache && !std::holds_alternative<OpaquePart>(last.content)) last.cache = cache;
  }
  return message;
}

}  // namespace

Result<std::string> read_arguments(const JsonNode& function, std::string_view key) {
  const auto arguments = function.find(key);
  if (!arguments) return std::string();
  if (arguments->is_object()) return arguments->raw();
  return std::string(TRY(arguments->as_string()));
}

Result<ToolCallPart> read_tool_call(const JsonNode& call) {
  TRY_VOID(call.expect_object());
  ToolCallPart part;
  part.id = TRY(call.string_or("id", ""));
  const std::string_view type = TRY(call.string_or("type", "function"));
  part.free_form = type == "custom";
  if (!part.free_form && type != "function" && !type.empty())
    return TRY(call.at("type"))
        .error(fmt::format("\"{}\" is not a kind of tool call", type.substr(0, 64)));
  const JsonNode said = TRY(call.at(part.free_form ? "custom" : "function"));
  part.name = TRY(said.string_at("name"));
  part.input = TRY(read_arguments(said, part.free_form ? "input" : "arguments"));
  return part;
}

Result<std::vector<Message>> read_messages(const JsonNode& list) {
  std::vector<Message> messages;
  MessageReader reader;
  TRY_VOID(list.for_each([&](const JsonNode& node) -> Result<void> {
    messages.push_back(TRY(reader.read(node)));
    return {};
  }));
  if (messages.empty()) return list.error("must not be empty");
  return messages;
}

}  // namespace pons::models::chat
