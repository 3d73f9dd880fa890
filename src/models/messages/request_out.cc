#include "messages/blocks_out.h"
#include "messages/fields_out.h"
#include "messages/foreign.h"
#include "messages/turns.h"
#include "messages/wire.h"

namespace pons::models::messages {

namespace {

std::string_view name_of_role(Role role) {
  if (role == Role::kUser) return "user";
  return role == Role::kAssistant ? "assistant" : "system";
}

std::size_t likely_size(const Request& request) {
  constexpr std::size_t kAround = 512;
  std::size_t size = kAround;
  for (const Message& message : request.messages)
    for (const Part& part : message.parts) {
      size += kAround / 4;
      if (const auto* text = std::get_if<TextPart>(&part.content)) size += text->text.size();
      if (const auto* media = std::get_if<MediaPart>(&part.content)) size += media->data.size();
    }
  for (const Tool& tool : request.tools) size += tool.schema.size() + tool.description.size();
  return size;
}

// What was read from this protocol goes as it came.
void write_own(JsonWriter& json, const Request& request) {
  std::size_t first = 0;
  if (!request.messages.empty() && request.messages[0].role == Role::kSystem &&
      request.messages[0].extras.empty()) {
    json.key("system");
    write_content(json, request.messages[0].parts, Extras::kKept);
    first = 1;
  }
  json.key("messages").begin_array();
  for (std::size_t i = first; i < request.messages.size(); ++i) {
    json.begin_object().field("role", name_of_role(request.messages[i].role)).key("content");
    write_content(json, request.messages[i].parts, Extras::kKept);
    write_extras(json, request.messages[i].extras);
    json.end_object();
  }
  json.end_array();
  if (!request.tools.empty()) {
    json.key("tools").begin_array();
    for (const Tool& tool : request.tools) write_tool(json, tool);
    json.end_array();
  }
  write_fields(json, request);
}

void write_parts(JsonWriter& json, const std::vector<const Part*>& parts) {
  if (parts.size() == 1 && is_plain_text(*parts[0], Extras::kLeft)) {
    json.string(std::get<TextPart>(parts[0]->content).text);
    return;
  }
  json.begin_array();
  for (const Part* part : parts) write_block(json, *part, Extras::kLeft);
  json.end_array();
}

Result<void> write_foreign(JsonWriter& json, const Request& request, std::string_view model,
                           Omitted& omitted) {
  const ModelTraits traits = traits_of(model);
  Turns turns = TRY(turns_of(request, omitted));
  const Request fields = TRY(fitting_fields(request, traits, turns, omitted));
  if (std::string asked = format_instruction(request, traits, omitted); !asked.empty())
    turns.system.push_back(&turns.made.emplace_back(Part{TextPart{std::move(asked)}}));
  if (!turns.system.empty()) {
    json.key("system");
    write_parts(json, turns.system);
  }
  json.key("messages").begin_array();
  for (const Turn& turn : turns.turns) {
    json.begin_object().field("role", name_of_role(turn.role)).key("content");
    write_parts(json, turn.parts);
    json.end_object();
  }
  json.end_array();
  TRY_VOID(write_foreign_tools(json, request, traits, omitted));
  write_fields(json, fields);
  return {};
}

}  // namespace

Result<std::string> write_request(const Request& request, std::string_view model,
                                  Omitted& omitted) {
  std::string out;
  out.reserve(likely_size(request));
  JsonWriter json(out);
  json.begin_object().field("model", model);
  if (request.protocol == Protocol::kMessages)
    write_own(json, request);
  else
    TRY_VOID(write_foreign(json, request, model, omitted));
  json.end_object();
  return out;
}

}  // namespace pons::models::messages
