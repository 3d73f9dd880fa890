#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/models/thinking.h"
#include "responses/responses.h"

namespace pons::models::responses {

namespace {

// "data:image/png;base64,AAAA" apart; other URLs are left to whoever fetches them.
void read_url(std::string_view url, MediaPart& media) {
  constexpr std::string_view kData = "data:";
  constexpr std::string_view kBase64 = ";base64,";
  const auto cut = url.find(kBase64);
  if (!url.starts_with(kData) || cut == std::string_view::npos) {
    media.source = MediaPart::Source::kUrl;
    media.data = url;
    return;
  }
  media.source = MediaPart::Source::kBase64;
  media.media_type = url.substr(kData.size(), cut - kData.size());
  media.data = url.substr(cut + kBase64.size());
}

Result<MediaPart> read_image(const JsonNode& node) {
  MediaPart media{.kind = MediaPart::Kind::kImage};
  media.detail = TRY(node.string_or("detail", ""));
  if (const auto file = node.find("file_id")) {
    media.source = MediaPart::Source::kFile;
    media.data = TRY(file->as_string());
    return media;
  }
  read_url(TRY(node.string_at("image_url")), media);
  return media;
}

Result<MediaPart> read_file(const JsonNode& node) {
  MediaPart media{.kind = MediaPart::Kind::kDocument};
  media.detail = TRY(node.string_or("detail", ""));
  media.name = TRY(node.string_or("filename", ""));
  if (const auto file = node.find("file_id")) {
    media.source = MediaPart::Source::kFile;
    media.data = TRY(file->as_string());
  } else if (const auto url = node.find("file_url")) {
    media.source = MediaPart::Source::kUrl;
    media.data = TRY(url->as_string());
  } else {
    const auto data = TRY(node.string_at("file_data"));
    read_url(data, media);
    // Not a data URL: the bare base64 text, whose type nobody said.
    media.source = MediaPart::Source::kBase64;
  }
  return media;
}

Result<Part> read_content(const JsonNode& node, Role role) {
  const auto type = TRY(node.string_at("type"));
  Part part;
  if (role == Role::kAssistant && (type == "output_text" || type == "refusal"))
    part = TRY(read_output_content(node));
  else if (type == "input_text" || type == "output_text" || type == "text")
    part.content = TextPart{.text = std::string(TRY(node.string_at("text")))};
  else if (type == "refusal")
    part.content = TextPart{.text = std::string(TRY(node.string_at("refusal")))};
  else if (type == "input_image")
    part.content = TRY(read_image(node));
  else if (type == "input_file")
    part.content = TRY(read_file(node));
  else if (is_content_type(type))
    part.content =
        OpaquePart{.protocol = Protocol::kResponses, .type = std::string(type), .json = node.raw()};
  else
    return TRY(node.at("type")).error(fmt::format("\"{}\" is not a kind of content", type));
  if (!std::holds_alternative<OpaquePart>(part.content) && node.find("prompt_cache_breakpoint"))
    part.cache = CacheHint{};
  return part;
}

// A string or a list of parts.
Result<std::vector<Part>> read_contents(const JsonNode& content, Role role) {
  std::vector<Part> parts;
  if (content.is_string()) {
    parts.push_back({.content = TextPart{.text = std::string(TRY(content.as_string()))}});
    return parts;
  }
  if (!content.is_array()) return content.error("must be a string or a list");
  TRY_VOID(content.for_each([&](const JsonNode& node) -> Result<void> {
    parts.push_back(TRY(read_content(node, role)));
    return {};
  }));
  return parts;
}

Result<Role> read_role(const JsonNode& item) {
  const auto role = TRY(item.string_at("role"));
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "system") return Role::kSystem;
  if (role == "developer") return Role::kDeveloper;
  return TRY(item.at("role")).error(fmt::format("\"{}\" is not a role", role));
}

// Items that stand for themselves, and not inside a message.
bool is_item(const Part& part) {
  if (const auto* opaque = std::get_if<OpaquePart>(&part.content))
    return !is_content_type(opaque->type);
  return std::holds_alternative<ThinkingPart>(part.content) ||
         std::holds_alternative<ToolCallPart>(part.content) ||
         std::holds_alternative<ToolResultPart>(part.content);
}

// One turn of the model is several items here and one message elsewhere. What is put together is
// cut again at the same places when it is written.
void add_item(std::vector<Message>& messages, Role role, Part part) {
  const bool joins = !messages.empty() && messages.back().role == role &&
                     !messages.back().parts.empty() &&
                     (role == Role::kAssistant || is_item(messages.back().parts.back()));
  if (!joins) messages.push_back({.role = role});
  messages.back().parts.push_back(std::move(part));
}

void add_message(std::vector<Message>& messages, Message message) {
  const bool joins = message.role == Role::kAssistant && !message.parts.empty() &&
                     message.extras.empty() && !messages.empty() &&
                     messages.back().role == Role::kAssistant && messages.back().extras.empty() &&
                     !messages.back().parts.empty() && is_item(messages.back().parts.back());
  if (!joins) {
    messages.push_back(std::move(message));
    return;
  }
  auto& parts = messages.back().parts;
  parts.insert(parts.end(), std::make_move_iterator(message.parts.begin()),
               std::make_move_iterator(message.parts.end()));
}

Result<Message> read_message(const JsonNode& item) {
  Message message{.role = TRY(read_role(item))};
  const auto content = TRY(item.at("content"));
  message.parts = TRY(read_contents(content, message.role));
  // The id and the status of a message mean nothing to a service that does not keep it.
  static constexpr std::array<std::string_view, 5> kKnown = {"type", "role", "content", "id",
                                                             "status"};
  TRY_VOID(item.for_each_field([&](std::string_view key, const JsonNode& value) -> Result<void> {
    if (value.is_null() || std::ranges::find(kKnown, key) != kKnown.end()) return {};
    message.extras.push_back({.name = std::string(key), .json = value.raw()});
    return {};
  }));
  return message;
}

Result<ToolResultPart> read_call_output(const JsonNode& item) {
  ToolResultPart result{.call_id = std::string(TRY(item.string_at("call_id")))};
  const auto output = TRY(item.at("output"));
  result.content = TRY(read_contents(output, Role::kUser));
  for (const Part& part : result.content)
    if (std::holds_alternative<OpaquePart>(part.content))
      return output.error("may hold input_text, input_image and input_file");
  return result;
}

// A program of the service made the call, and its output goes back to it.
bool is_of_program(const JsonNode& item) {
  const auto caller = item.find("caller");
  return caller && caller->string_or("type", "direct").value_or("") != "direct";
}

Result<void> read_item(const JsonNode& item, std::vector<Message>& messages) {
  TRY_VOID(item.expect_object());
  auto type = TRY(item.string_or("type", ""));
  if (type.empty()) type = item.find("role") ? "message" : item.find("id") ? "item_reference" : "";
  if (type == "message") {
    add_message(messages, TRY(read_message(item)));
    return {};
  }
  if (type.empty()) return item.error("\"type\" is missing");
  if (is_content_type(type))
    return item.error(fmt::format("\"{}\" is a kind of content, not of item", type));
  const bool is_custom = type.starts_with("custom_tool_call");
  if ((type == "function_call" || type == "custom_tool_call") && !is_of_program(item)) {
    add_item(messages, Role::kAssistant, {.content = TRY(read_call(item))});
  } else if ((type == "function_call_output" || type == "custom_tool_call_output") &&
             !is_of_program(item)) {
    auto result = TRY(read_call_output(item));
    result.free_form = is_custom;
    add_item(messages, Role::kUser, {.content = std::move(result)});
  } else if (type == "reasoning") {
    auto thinking = TRY(read_reasoning(item));
    const auto sealed = TRY(item.string_or("encrypted_content", ""));
    if (auto carried = carried_proof(sealed)) thinking = std::move(*carried);
    add_item(messages, Role::kAssistant, {.content = std::move(thinking)});
  } else {
    const Role role = type.ends_with("_output") ? Role::kUser : Role::kAssistant;
    add_item(
        messages, role,
        {.content = OpaquePart{
             .protocol = Protocol::kResponses, .type = std::string(type), .json = item.raw()}});
  }
  return {};
}

}  // namespace

bool is_content_type(std::string_view type) {
  static constexpr std::array<std::string_view, 10> kTypes = {
      "input_text", "input_image",         "input_file",   "input_audio",    "output_text",
      "refusal",    "computer_screenshot", "summary_text", "reasoning_text", "encrypted_content"};
  return std::ranges::find(kTypes, type) != kTypes.end();
}

Result<void> read_input(const JsonNode& input, std::vector<Message>& messages) {
  if (input.is_string()) {
    messages.push_back({.role = Role::kUser, .parts = TRY(read_contents(input, Role::kUser))});
    return {};
  }
  if (!input.is_array()) return input.error("must be a string or a list");
  return input.for_each([&](const JsonNode& item) { return read_item(item, messages); });
}

}  // namespace pons::models::responses
