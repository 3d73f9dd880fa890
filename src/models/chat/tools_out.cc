#include <algorithm>

#include <fmt/format.h>

#include "chat/chat.h"
#include "chat/content_out.h"

namespace pons::models::chat {

namespace {

void write_function(JsonWriter& json, const Tool& tool, bool own) {
  json.begin_object().field("type", "function").key("function").begin_object();
  json.field("name", tool.name);
  if (!tool.description.empty()) json.field("description", tool.description);
  if (!tool.schema.empty())
    json.raw_field("parameters", tool.schema);
  else if (!own)
    json.raw_field("parameters", R"({"type":"object","properties":{}})");
  if (tool.strict) json.field("strict", *tool.strict);
  json.end_object();
  if (own) write_cache_hint(json, tool.cache);
  json.end_object();
}

void write_format(JsonWriter& json, const std::string& schema) {
  JsonDocument document;
  const auto format = document.parse(schema);
  const auto definition = format ? format->find("definition") : std::nullopt;
  const auto syntax = format ? format->find("syntax") : std::nullopt;
  json.key("format");
  if (!definition || !syntax) {
    json.raw(schema);
    return;
  }
  json.begin_object().field("type", "grammar").key("grammar").begin_object();
  json.raw_field("definition", definition->raw()).raw_field("syntax", syntax->raw());
  json.end_object().end_object();
}

void write_custom(JsonWriter& json, const Tool& tool, bool own) {
  json.begin_object().field("type", "custom").key("custom").begin_object();
  json.field("name", tool.name);
  if (!tool.description.empty()) json.field("description", tool.description);
  if (!tool.schema.empty()) write_format(json, tool.schema);
  json.end_object();
  if (own) write_cache_hint(json, tool.cache);
  json.end_object();
}

void write_choice(JsonWriter& json, const Request& request) {
  const ToolChoice& choice = request.tool_choice;
  switch (choice.kind) {
    case ToolChoice::Kind::kUnset:
      return;
    case ToolChoice::Kind::kAuto:
      json.field("tool_choice", "auto");
      return;
    case ToolChoice::Kind::kAny:
      json.field("tool_choice", "required");
      return;
    case ToolChoice::Kind::kNone:
      json.field("tool_choice", "none");
      return;
    case ToolChoice::Kind::kOne:
      const char* const type = is_free_form(request, choice.name) ? "custom" : "function";
      json.key("tool_choice").begin_object().field("type", type).key(type).begin_object();
      json.field("name", choice.name).end_object().end_object();
  }
}

}  // namespace

bool is_free_form(const Request& request, std::string_view tool) {
  return std::ranges::any_of(request.tools, [&](const Tool& one) {
    return one.kind == Tool::Kind::kFreeForm && one.name == tool;
  });
}

Result<void> write_tools(JsonWriter& json, const Request& request) {
  const bool own = request.protocol == Protocol::kChat;
  if (!request.tools.empty()) {
    json.key("tools").begin_array();
    for (const Tool& tool : request.tools) {
      if (tool.kind == Tool::Kind::kFunction) {
        write_function(json, tool, own);
      } else if (tool.kind == Tool::Kind::kFreeForm) {
        write_custom(json, tool, own);
      } else if (tool.protocol == Protocol::kChat) {
        json.raw(tool.schema);
      } else {
        return refusal(
            fmt::format("tools: \"{}\" is run by providers that speak {}, and this model's "
                        "provider speaks chat: remove the tool or choose another model",
                        tool.name, name_of(tool.protocol)));
      }
    }
    json.end_array();
  }
  // Without tools, OpenAI refuses both of these.
  if (request.tools.empty() && !own) return {};
  const bool has_raw_choice =
      own && std::ranges::any_of(request.extras, [](const ExtraField& extra) {
        return extra.name == "tool_choice";
      });
  if (!has_raw_choice) write_choice(json, request);
  if (request.parallel_tools) json.field("parallel_tool_calls", *request.parallel_tools);
  return {};
}

}  // namespace pons::models::chat
