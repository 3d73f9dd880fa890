#include "chat/chat.h"
#include "pons/models/thinking.h"

namespace pons::models::chat {

namespace {

// A proof of another protocol that one of our answers carried to the client.
std::optional<ThinkingPart> carried_in(const JsonNode& detail) {
  const auto data = detail.string_or("data", "");
  if (!data) return std::nullopt;
  auto part = carried_proof(*data);
  if (part && part->author == Protocol::kChat) return std::nullopt;
  return part;
}

// The provider's own details are written back as they came. A proof comes from a client, who may
// have put anything there.
void write_details(JsonWriter& json, const ThinkingPart& part) {
  JsonDocument document;
  const auto details = document.parse(part.proof);
  if (!details || !details->is_array()) return;
  (void)details->for_each([&](const JsonNode& detail) -> Result<void> {
    json.raw(detail.raw());
    return {};
  });
}

}  // namespace

Result<void> read_reasoning(const JsonNode& message, std::vector<Part>& parts) {
  std::string_view text = TRY(message.string_or("reasoning_content", ""));
  if (text.empty()) text = TRY(message.string_or("reasoning", ""));
  std::string own;
  bool is_carried = false;
  if (const auto details = message.find("reasoning_details"))
    TRY_VOID(details->for_each([&](const JsonNode& detail) -> Result<void> {
      if (auto carried = carried_in(detail)) {
        parts.push_back({.content = std::move(*carried)});
        is_carried = true;
      } else {
        own += own.empty() ? '[' : ',';
        own += detail.raw();
      }
      return {};
    }));
  if (!own.empty()) own += ']';
  // What is carried has its text with it.
  if (is_carried) text = {};
  if (text.empty() && own.empty()) return {};
  parts.push_back(
      {.content = ThinkingPart{
           .text = std::string(text), .proof = std::move(own), .author = Protocol::kChat}});
  return {};
}

void write_reasoning(JsonWriter& json, const std::vector<const ThinkingPart*>& thinking) {
  std::string text;
  bool has_details = false;
  for (const ThinkingPart* const part : thinking) {
    if (!text.empty() && !part->text.empty()) text += "\n\n";
    text += part->text;
    has_details = has_details || !part->proof.empty();
  }
  if (!text.empty()) json.field("reasoning_content", text);
  if (!has_details) return;
  json.key("reasoning_details").begin_array();
  std::int64_t index = 0;
  for (const ThinkingPart* const part : thinking) {
    if (part->proof.empty()) continue;
    if (part->author == Protocol::kChat)
      write_details(json, *part);
    else
      write_carried(json, *part, index++);
  }
  json.end_array();
}

void write_carried(JsonWriter& json, const ThinkingPart& part, std::int64_t index) {
  json.begin_object()
      .field("type", "reasoning.encrypted")
      .field("data", carry_proof(part))
      .field("index", index)
      .end_object();
}

}  // namespace pons::models::chat
