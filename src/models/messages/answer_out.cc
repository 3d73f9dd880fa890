#include "messages/answer_out.h"

#include "json_node.h"
#include "messages/blocks_out.h"
#include "messages/usage.h"
#include "messages/wire.h"
#include "pons/models/thinking.h"

namespace pons::models::messages {

namespace {

// The input must be an object. What a model wrote instead is kept where one can see it.
std::string object_input(const ToolCallPart& call, JsonDocument& document) {
  if (call.input.empty() && !call.free_form) return "{}";
  if (!call.free_form)
    if (const auto input = document.parse(call.input); input && input->is_object())
      return call.input;
  std::string wrapped;
  JsonWriter(wrapped)
      .begin_object()
      .field(call.free_form ? "input" : "invalid_json", call.input)
      .end_object();
  return wrapped;
}

void write_part(JsonWriter& json, const Part& part, JsonDocument& document) {
  if (const auto* thinking = std::get_if<ThinkingPart>(&part.content)) {
    write_block(json, Part{sealed(*thinking)}, Extras::kLeft);
  } else if (const auto* call = std::get_if<ToolCallPart>(&part.content)) {
    ToolCallPart written = *call;
    written.input = object_input(*call, document);
    write_block(json, Part{std::move(written)}, Extras::kLeft);
  } else if (const auto* text = std::get_if<TextPart>(&part.content);
             text && !text->citations.empty() && text->cited_in != Protocol::kMessages) {
    TextPart written{.text = text->text};
    if (const auto list = document.parse(text->citations))
      (void)list->for_each([&](const JsonNode& citation) -> Result<void> {
        if (std::string page = page_citation(citation.raw()); !page.empty())
          written.citations += (written.citations.empty() ? "[" : ",") + page;
        return {};
      });
    if (!written.citations.empty()) written.citations += "]";
    write_block(json, Part{std::move(written)}, Extras::kLeft);
  } else {
    write_block(json, part, Extras::kLeft);
  }
}

}  // namespace

std::string page_citation(std::string_view json) {
  JsonDocument document;
  const auto citation = document.parse(json);
  if (!citation) return {};
  const auto inner = citation->find("url_citation");  // kChat's
  const JsonNode& page = inner ? *inner : *citation;
  const auto url = page.string_or("url", "");
  if (!url || url->empty()) return {};
  std::string out;
  JsonWriter(out)
      .begin_object()
      .field("type", "web_search_result_location")
      .field("url", *url)
      .field("title", page.string_or("title", "").value_or(""))
      .field("encrypted_index", kCarriedProof)
      .field("cited_text", "")
      .end_object();
  return out;
}

void note(Written& written, const Part& part) {
  if (std::holds_alternative<ToolCallPart>(part.content)) written.called_tools = true;
  if (std::holds_alternative<RefusalPart>(part.content)) written.refused = true;
}

std::string_view reason_for(Stop stop, const Written& written) {
  if (stop == Stop::kEnd && written.refused) stop = Stop::kRefusal;
  if (stop == Stop::kEnd && written.called_tools) stop = Stop::kToolUse;
  if (stop == Stop::kToolUse && !written.called_tools) stop = Stop::kEnd;
  return reason_of(stop);
}

bool has_block(const Part& part) {
  if (const auto* opaque = std::get_if<OpaquePart>(&part.content))
    return opaque->protocol == Protocol::kMessages;
  return !std::holds_alternative<MediaPart>(part.content) &&
         !std::holds_alternative<ToolResultPart>(part.content);
}

ThinkingPart sealed(const ThinkingPart& thinking) {
  if (thinking.author == Protocol::kMessages) return thinking;
  return {.text = thinking.text, .proof = carry_proof(thinking)};
}

void write_message(JsonWriter& json, const Answer& about, std::string_view content,
                   std::string_view reason) {
  json.begin_object().field("id", about.id.empty() ? "msg_0" : std::string_view(about.id));
  json.field("type", "message").field("role", "assistant").field("model", about.model);
  json.raw_field("content", content).key("stop_reason");
  if (reason.empty())
    json.null();
  else
    json.string(reason);
  json.key("stop_sequence");
  if (about.stop_sequence.empty())
    json.null();
  else
    json.string(about.stop_sequence);
  json.key("usage");
  write_usage(json, about.usage);
  json.end_object();
}

std::string write_answer(const Answer& answer, const Request& request) {
  std::string content;
  JsonWriter blocks(content);
  JsonDocument document;
  Written written;
  blocks.begin_array();
  for (const Part& part : answer.parts) {
    if (!has_block(part)) continue;
    note(written, part);
    write_part(blocks, part, document);
  }
  blocks.end_array();
  Answer about{.id = answer.id,
               .model = answer.model.empty() ? request.model : answer.model,
               .parts = {},
               .stop_sequence = answer.stop_sequence,
               .usage = answer.usage};
  std::string out;
  JsonWriter json(out);
  write_message(json, about, content, reason_for(answer.stop, written));
  return out;
}

}  // namespace pons::models::messages
