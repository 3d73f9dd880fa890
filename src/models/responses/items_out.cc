#include <algorithm>

#include "pons/models/thinking.h"
#include "responses/answer_out.h"

namespace pons::models::responses {

namespace {

void write_summary(JsonWriter& json, std::string_view text) {
  json.key("summary").begin_array();
  if (!text.empty())
    json.begin_object().field("type", "summary_text").field("text", text).end_object();
  json.end_array();
}

void write_foreign_reasoning(JsonWriter& json, const ThinkingPart& part, std::string_view id) {
  json.begin_object().field("id", id).field("type", "reasoning");
  write_summary(json, part.text);
  if (!part.text.empty() || !part.proof.empty()) json.field("encrypted_content", carry_proof(part));
  json.end_object();
}

void write_call_item(JsonWriter& json, const ToolCallPart& call, std::string_view id,
                     std::string_view status) {
  json.begin_object().field("id", id);
  json.field("type", call.free_form ? "custom_tool_call" : "function_call");
  json.field("status", status).field(call.free_form ? "input" : "arguments", call.input);
  json.field("call_id", call.id).field("name", call.name);
  if (!call.space.empty()) json.field("namespace", call.space);
  json.end_object();
}

void write_page(JsonWriter& json, const JsonNode& citation, std::int64_t length) {
  const auto url = citation.string_or("url", "");
  if (!url || url->empty()) return;
  const auto place = [&](const char* name, std::int64_t otherwise) {
    return citation.integer_at(name).value_or(std::nullopt).value_or(otherwise);
  };
  json.begin_object().field("type", "url_citation");
  json.field("start_index", place("start_index", 0));
  json.field("end_index", place("end_index", length));
  json.field("title", citation.string_or("title", "").value_or("")).field("url", *url);
  json.end_object();
}

}  // namespace

std::string reasoning_id(const ThinkingPart& part) {
  JsonDocument document;
  const auto proof = document.parse(part.proof);
  return proof ? std::string(proof->string_or("id", "").value_or("")) : "";
}

void write_reasoning(JsonWriter& json, const ThinkingPart& part, std::string_view id,
                     Proven proven) {
  JsonDocument document;
  const auto proof = document.parse(part.proof.empty() ? "{}" : part.proof);
  const auto field = [&](const char* name) {
    return proof ? proof->find(name) : std::optional<JsonNode>();
  };
  const auto sealed = field("encrypted_content");
  if (!sealed && proven == Proven::kOnly) return;
  json.begin_object().field("type", "reasoning");
  if (!id.empty())
    json.field("id", id);
  else if (const auto own = field("id"))
    json.raw_field("id", own->raw());
  if (const auto summary = field("summary"))
    json.raw_field("summary", summary->raw());
  else
    write_summary(json, part.text);
  if (const auto content = field("content")) json.raw_field("content", content->raw());
  if (sealed) json.raw_field("encrypted_content", sealed->raw());
  json.end_object();
}

void map_citations(TextPart& text) {
  if (text.cited_in == Protocol::kResponses) return;
  text.cited_in = Protocol::kResponses;
  std::string mapped;
  JsonDocument document;
  if (const auto list = document.parse(text.citations.empty() ? "[]" : text.citations)) {
    const auto length = std::ranges::count_if(
        text.text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
    JsonWriter json(mapped);
    json.begin_array();
    (void)list->for_each([&](const JsonNode& citation) -> Result<void> {
      const auto inner = citation.find("url_citation");  // kChat's
      write_page(json, inner ? *inner : citation, length);
      return {};
    });
    json.end_array();
  }
  text.citations = mapped == "[]" ? "" : std::move(mapped);
}

bool OutputItem::is_message() const {
  return !parts.empty() && (std::holds_alternative<TextPart>(parts.front().content) ||
                            std::holds_alternative<RefusalPart>(parts.front().content));
}

bool is_wrapped(const ToolCallPart& call, const Request& request) {
  return !call.free_form && std::ranges::any_of(request.tools, [&](const Tool& tool) {
    return tool.kind == Tool::Kind::kFreeForm && tool.name == call.name && tool.space == call.space;
  });
}

std::string unwrap(std::string_view input) {
  JsonDocument document;
  if (const auto root = document.parse(input))
    if (const auto text = root->string_at("input")) return std::string(*text);
  return std::string(input);  // the model did not keep to the form
}

std::optional<Part> shown(const Part& part, const Request& request) {
  if (std::holds_alternative<MediaPart>(part.content) ||
      std::holds_alternative<ToolResultPart>(part.content))
    return std::nullopt;
  if (const auto* opaque = std::get_if<OpaquePart>(&part.content))
    if (opaque->protocol != Protocol::kResponses) return std::nullopt;
  Part copy = part;
  if (auto* text = std::get_if<TextPart>(&copy.content)) map_citations(*text);
  if (auto* call = std::get_if<ToolCallPart>(&copy.content)) {
    if (is_wrapped(*call, request)) {
      call->free_form = true;
      call->input = unwrap(call->input);
    }
  }
  return copy;
}

bool joins_message(const OutputItem& open, const Part& part) {
  return open.is_message() && OutputItem{.parts = {part}}.is_message();
}

void write_content_part(JsonWriter& json, const Part& part) {
  json.begin_object();
  if (const auto* refusal = std::get_if<RefusalPart>(&part.content)) {
    json.field("type", "refusal").field("refusal", refusal->text);
  } else {
    const auto& text = std::get<TextPart>(part.content);
    const bool is_cited = text.cited_in == Protocol::kResponses && !text.citations.empty();
    json.field("type", "output_text").raw_field("annotations", is_cited ? text.citations : "[]");
    json.raw_field("logprobs", "[]").field("text", text.text);
  }
  json.end_object();
}

void write_item(JsonWriter& json, const OutputItem& item, std::string_view status) {
  const Part& first = item.parts.front();
  if (item.is_message()) {
    json.begin_object().field("id", item.id).field("type", "message").field("status", status);
    json.key("content").begin_array();
    if (status != "in_progress")
      for (const Part& part : item.parts) write_content_part(json, part);
    json.end_array().field("role", "assistant").end_object();
  } else if (const auto* call = std::get_if<ToolCallPart>(&first.content)) {
    write_call_item(json, *call, item.id, status);
  } else if (const auto* opaque = std::get_if<OpaquePart>(&first.content)) {
    json.raw(opaque->json);
  } else {
    const auto& thinking = std::get<ThinkingPart>(first.content);
    if (thinking.author == Protocol::kResponses)
      write_reasoning(json, thinking, item.id, Proven::kAny);
    else
      write_foreign_reasoning(json, thinking, item.id);
  }
}

}  // namespace pons::models::responses
