#include "messages/fields_out.h"

#include "messages/blocks_out.h"

namespace pons::models::messages {

namespace {

// Those that were read from the object of that name.
void write_inner_extras(JsonWriter& json, const std::vector<ExtraField>& extras,
                        std::string_view object) {
  for (const ExtraField& extra : extras) {
    std::string_view name = extra.name;
    if (!name.starts_with(object)) continue;
    name.remove_prefix(object.size());
    if (name.starts_with('.') && name.find('.', 1) == std::string_view::npos)
      json.raw_field(name.substr(1), extra.json);
  }
}

bool has_inner_extras(const std::vector<ExtraField>& extras, std::string_view prefix) {
  for (const ExtraField& extra : extras)
    if (extra.name.starts_with(prefix)) return true;
  return false;
}

void write_tool_choice(JsonWriter& json, const Request& request) {
  using Kind = ToolChoice::Kind;
  const auto& choice = request.tool_choice;
  if (choice.kind == Kind::kUnset) return;
  json.key("tool_choice").begin_object();
  if (choice.kind == Kind::kOne)
    json.field("type", "tool").field("name", choice.name);
  else
    json.field("type", choice.kind == Kind::kAny    ? "any"
                       : choice.kind == Kind::kNone ? "none"
                                                    : "auto");
  if (request.parallel_tools) json.field("disable_parallel_tool_use", !*request.parallel_tools);
  write_inner_extras(json, request.extras, "tool_choice");
  json.end_object();
}

void write_thinking_wish(JsonWriter& json, const Request& request) {
  using Kind = ThinkingWish::Kind;
  const ThinkingWish& wish = request.thinking;
  if (wish.kind == Kind::kUnset || wish.kind == Kind::kEffort) return;
  json.key("thinking").begin_object();
  if (wish.kind == Kind::kBudget)
    json.field("type", "enabled").field("budget_tokens", wish.budget_tokens);
  else
    json.field("type", wish.kind == Kind::kAdaptive ? "adaptive" : "disabled");
  write_inner_extras(json, request.extras, "thinking");
  json.end_object();
}

void write_output_config(JsonWriter& json, const Request& request) {
  const bool has_schema = request.format.kind == OutputFormat::Kind::kSchema;
  const auto& effort = request.thinking.effort;
  if (!has_schema && effort.empty() && !has_inner_extras(request.extras, "output_config.")) return;
  json.key("output_config").begin_object();
  if (!effort.empty()) json.field("effort", effort);
  if (has_schema) {
    json.key("format").begin_object().field("type", "json_schema");
    json.raw_field("schema", request.format.schema);
    write_inner_extras(json, request.extras, "output_config.format");
    json.end_object();
  }
  write_inner_extras(json, request.extras, "output_config");
  json.end_object();
}

void write_metadata(JsonWriter& json, const Request& request) {
  if (request.user.empty() && !has_inner_extras(request.extras, "metadata.")) return;
  json.key("metadata").begin_object();
  if (!request.user.empty()) json.field("user_id", request.user);
  write_inner_extras(json, request.extras, "metadata");
  json.end_object();
}

}  // namespace

void write_fields(JsonWriter& json, const Request& request) {
  if (request.output_tokens_max) json.field("max_tokens", *request.output_tokens_max);
  if (request.temperature) json.field("temperature", *request.temperature);
  if (request.top_p) json.field("top_p", *request.top_p);
  if (request.top_k) json.field("top_k", *request.top_k);
  if (!request.stop.empty()) {
    json.key("stop_sequences").begin_array();
    for (const std::string& sequence : request.stop) json.string(sequence);
    json.end_array();
  }
  if (request.stream) json.field("stream", true);
  write_tool_choice(json, request);
  write_thinking_wish(json, request);
  write_output_config(json, request);
  write_metadata(json, request);
  for (const ExtraField& extra : request.extras)
    if (extra.name.find('.') == std::string::npos) json.raw_field(extra.name, extra.json);
}

void write_tool(JsonWriter& json, const Tool& tool) {
  if (tool.kind == Tool::Kind::kServer) {
    json.raw(tool.schema);
    return;
  }
  json.begin_object().field("name", tool.name);
  if (!tool.description.empty()) json.field("description", tool.description);
  json.raw_field("input_schema", tool.schema);
  if (tool.strict) json.field("strict", *tool.strict);
  write_cache(json, tool.cache, tool.extras);
  write_extras(json, tool.extras);
  json.end_object();
}

}  // namespace pons::models::messages
