#include <fmt/format.h>

#include "responses/responses.h"

namespace pons::models::responses {

namespace {

constexpr std::string_view kBetweenTexts = "\n\n";

// The texts of a list of {"type","text"}.
Result<std::string> read_texts(const JsonNode& list, std::size_t& count) {
  std::string text;
  TRY_VOID(list.for_each([&](const JsonNode& each) -> Result<void> {
    if (count++ > 0) text += kBetweenTexts;
    text += TRY(each.string_at("text"));
    return {};
  }));
  return text;
}

}  // namespace

Result<ThinkingPart> read_reasoning(const JsonNode& item) {
  ThinkingPart part{.text = {}, .author = Protocol::kResponses};
  const auto id = TRY(item.string_or("id", ""));
  const auto sealed = TRY(item.string_or("encrypted_content", ""));
  const auto summary = item.find("summary");
  const auto content = item.find("content");
  std::size_t summaries = 0;
  std::size_t contents = 0;
  if (summary) part.text = TRY(read_texts(*summary, summaries));
  if (content) {
    auto text = TRY(read_texts(*content, contents));
    if (summaries == 0) part.text = std::move(text);
  }
  // One text can be put back from the part; what it was cut into, or said beside it, can not.
  const bool keeps_texts = summaries > 1 || contents > 0;
  if (id.empty() && sealed.empty() && !keeps_texts) return part;
  JsonWriter json(part.proof);
  json.begin_object();
  if (!id.empty()) json.field("id", id);
  if (!sealed.empty()) json.field("encrypted_content", sealed);
  if (keeps_texts) json.raw_field("summary", summary ? summary->raw() : "[]");
  if (contents > 0) json.raw_field("content", content->raw());
  json.end_object();
  return part;
}

Result<Part> read_output_content(const JsonNode& content) {
  const auto type = TRY(content.string_at("type"));
  if (type == "refusal")
    return Part{.content = RefusalPart{.text = std::string(TRY(content.string_at("refusal")))}};
  TextPart text{.text = std::string(TRY(content.string_at("text")))};
  if (const auto annotations = content.find("annotations")) {
    TRY_VOID(annotations->expect_array());
    if (simdjson::dom::array(annotations->value()).size() > 0) {
      text.citations = annotations->raw();
      text.cited_in = Protocol::kResponses;
    }
  }
  return Part{.content = std::move(text)};
}

Result<ToolCallPart> read_call(const JsonNode& item) {
  ToolCallPart call{.id = std::string(TRY(item.string_at("call_id"))),
                    .name = std::string(TRY(item.string_at("name")))};
  call.free_form = TRY(item.string_at("type")) == "custom_tool_call";
  call.input = TRY(item.string_or(call.free_form ? "input" : "arguments", ""));
  call.space = TRY(item.string_or("namespace", ""));
  return call;
}

Result<void> read_output_item(const JsonNode& item, std::vector<Part>& parts) {
  const auto type = TRY(item.string_at("type"));
  if (type == "message") {
    const auto content = TRY(item.at("content"));
    return content.for_each([&](const JsonNode& each) -> Result<void> {
      const auto kind = TRY(each.string_at("type"));
      if (kind == "output_text" || kind == "refusal")
        parts.push_back(TRY(read_output_content(each)));
      return {};
    });
  }
  if (type == "function_call" || type == "custom_tool_call")
    parts.push_back({.content = TRY(read_call(item))});
  else if (type == "reasoning")
    parts.push_back({.content = TRY(read_reasoning(item))});
  else
    parts.push_back(
        {.content = OpaquePart{
             .protocol = Protocol::kResponses, .type = std::string(type), .json = item.raw()}});
  return {};
}

}  // namespace pons::models::responses
