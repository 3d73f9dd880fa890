#include <algorithm>
#include <chrono>

#include "chat/chat.h"

namespace pons::models::chat {

namespace {

struct Sorted {
  std::string text;
  std::string refused;
  std::vector<const ThinkingPart*> thinking;
  std::vector<const ToolCallPart*> calls;
  bool has_citations = false;
};

Sorted sort_parts(const Answer& answer) {
  Sorted sorted;
  for (const Part& part : answer.parts) {
    if (const auto* text = std::get_if<TextPart>(&part.content)) {
      sorted.text += text->text;
      sorted.has_citations = sorted.has_citations || !text->citations.empty();
    } else if (const auto* refused = std::get_if<RefusalPart>(&part.content)) {
      sorted.refused += refused->text;
    } else if (const auto* thinking = std::get_if<ThinkingPart>(&part.content)) {
      sorted.thinking.push_back(thinking);
    } else if (const auto* call = std::get_if<ToolCallPart>(&part.content)) {
      sorted.calls.push_back(call);
    }
  }
  return sorted;
}

void write_call(JsonWriter& json, const ToolCallPart& call, const Request& request) {
  const bool free_form = call.free_form || is_free_form(request, call.name);
  const char* const type = free_form ? "custom" : "function";
  json.begin_object().field("id", call.id).field("type", type).key(type).begin_object();
  json.field("name", call.name);
  if (free_form)
    json.field("input", free_form_input(call));
  else
    json.field("arguments", call.input.empty() ? "{}" : std::string_view(call.input));
  json.end_object().end_object();
}

void write_citations(JsonWriter& json, const Answer& answer) {
  json.key("annotations").begin_array();
  std::size_t begin = 0;
  for (const Part& part : answer.parts)
    if (const auto* text = std::get_if<TextPart>(&part.content)) {
      const std::size_t end = begin + code_points(text->text);
      write_annotations(json, text->citations, text->cited_in, {.begin = begin, .end = end});
      begin = end;
    }
  json.end_array();
}

void write_message(JsonWriter& json, const Answer& answer, const Request& request) {
  const Sorted parts = sort_parts(answer);
  json.begin_object().field("role", "assistant").key("content");
  if (parts.text.empty() && !(parts.calls.empty() && parts.refused.empty()))
    json.null();
  else
    json.string(parts.text);
  json.key("refusal");
  parts.refused.empty() ? json.null() : json.string(parts.refused);
  write_reasoning(json, parts.thinking);
  if (parts.has_citations) write_citations(json, answer);
  if (!parts.calls.empty()) {
    json.key("tool_calls").begin_array();
    for (const ToolCallPart* const call : parts.calls) write_call(json, *call, request);
    json.end_array();
  }
  json.end_object();
}

// One citation of another protocol, if it is of a page.
void write_url_citation(JsonWriter& json, const JsonNode& citation, TextRange range) {
  const auto url = citation.string_or("url", "");
  if (!url || url->empty()) return;
  const auto title = citation.string_or("title", "");
  json.begin_object().field("type", "url_citation").key("url_citation").begin_object();
  json.field("start_index", range.begin).field("end_index", range.end).field("url", *url);
  json.field("title", title ? *title : std::string_view()).end_object().end_object();
}

}  // namespace

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string free_form_input(const ToolCallPart& call) {
  if (call.free_form) return call.input;
  JsonDocument document;
  const auto root = document.parse(call.input);
  const auto input = root ? root->find("input") : std::nullopt;
  if (!input || !input->is_string()) return call.input;
  return std::string(input->as_string().value());
}

void write_annotations(JsonWriter& json, std::string_view citations, Protocol cited_in,
                       TextRange range) {
  if (citations.empty()) return;
  JsonDocument document;
  const auto list = document.parse(citations);
  if (!list) return;
  (void)list->for_each([&](const JsonNode& citation) -> Result<void> {
    if (cited_in == Protocol::kChat)
      json.raw(citation.raw());
    else
      write_url_citation(json, citation, range);
    return {};
  });
}

std::string write_answer(const Answer& answer, const Request& request) {
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .field("id", answer.id)
      .field("object", "chat.completion")
      .field("created", unix_now())
      .field("model", answer.model.empty() ? request.model : answer.model)
      .key("choices")
      .begin_array()
      .begin_object()
      .field("index", 0)
      .key("message");
  write_message(json, answer, request);
  json.key("logprobs").null();
  json.field("finish_reason", finish_reason_of(answer.stop)).end_object().end_array();
  json.key("usage");
  write_usage(json, answer.usage);
  json.end_object();
  return out;
}

}  // namespace pons::models::chat
