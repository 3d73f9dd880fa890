#include "making.h"

#include <nlohmann/json.hpp>

#include "pons/managed/query.h"

namespace pons::managed {

Json text_blocks(std::string_view text) {
  return Json::array({{{"type", "text"}, {"text", text}}});
}

Json blocks_of(const std::string& content) {
  auto blocks =
      parse_json(content.empty() ? "[]" : content, {.depth = 128, .bytes = std::size_t{64} << 20});
  return blocks && blocks->is_array() ? std::move(*blocks) : Json::array();
}

Json input_of(const session::ToolCalled& event) {
  Json input = parse_json(event.shown.empty() ? event.input : event.shown).value_or(Json::object());
  return input.is_object() ? input : Json::object();
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const char* error_type_of(session::ModelFault fault) {
  switch (fault) {
    case session::ModelFault::kRateLimited:
      return "model_rate_limited_error";
    case session::ModelFault::kOverloaded:
      return "model_overloaded_error";
    case session::ModelFault::kOther:
      break;
  }
  return "model_request_failed_error";
}

void Translator::Making::add_as(std::string id, const char* type, Json fields) const {
  Json json = {{"id", id}, {"type", type}, {"processed_at", write_time(stored.at_ms)}};
  json.update(fields);
  out.push_back(
      {.id = std::move(id), .type = type, .at_ms = stored.at_ms, .text = dump_json(json)});
}

void Translator::Making::add(const char* type, EventId id, Json fields) const {
  add_as(translator.id_of(id), type, std::move(fields));
}

void Translator::Making::add(const char* type, Json fields) const {
  add(type, {.seq = stored.seq}, std::move(fields));
}

void Translator::Making::add(const char* type) const {
  add(type, Json::object());
}

void Translator::Making::add_error(const char* type, std::string_view message,
                                   const char* retry) const {
  add("session.error", {.seq = stored.seq, .part = Part::kError},
      {{"error", {{"type", type}, {"message", message}, {"retry_status", {{"type", retry}}}}}});
}

}  // namespace pons::managed
