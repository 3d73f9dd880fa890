#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "json_node.h"
#include "messages/fields_out.h"
#include "messages/foreign.h"

namespace pons::models::messages {

namespace {

constexpr std::string_view kAnyObject = R"({"type":"object","properties":{}})";
constexpr std::string_view kInputText =
    R"({"type":"object","properties":{"input":{"type":"string"}},"required":["input"],)"
    R"("additionalProperties":false})";

// Anthropic wants to be told that the input is an object; others take it for granted.
Result<std::string> object_schema(const Tool& tool, JsonDocument& document) {
  if (tool.schema.empty()) return std::string(kAnyObject);
  const auto schema = document.parse(tool.schema);
  if (!schema || !schema->is_object())
    return unwritable(fmt::format("the schema of tool \"{}\" must be an object", tool.name));
  if (schema->find("type")) return tool.schema;
  std::string typed;
  JsonWriter json(typed);
  json.begin_object().field("type", "object");
  for (const auto& [key, value] : simdjson::dom::object(schema->value()))
    if (key != "type") json.raw_field(key, simdjson::minify(value));
  json.end_object();
  return typed;
}

// {"type":"grammar","syntax":"lark","definition":"…"}, in Chat one level deeper.
std::string format_in_words(const Tool& tool, JsonDocument& document) {
  if (tool.schema.empty()) return tool.description;
  const auto format = document.parse(tool.schema);
  if (!format) return tool.description;
  const auto grammar = format->find("grammar");
  const JsonNode& holder = grammar ? *grammar : *format;
  const auto syntax = holder.string_or("syntax", "");
  const auto definition = holder.string_or("definition", "");
  if (!syntax || !definition || definition->empty()) return tool.description;
  return fmt::format("{}\n\nThe input must follow this {} grammar:\n{}", tool.description, *syntax,
                     *definition);
}

Result<Tool> fitting_tool(const Tool& tool, const ModelTraits& traits, JsonDocument& document,
                          Omitted& omitted) {
  if (tool.kind == Tool::Kind::kServer) {
    if (tool.protocol == Protocol::kMessages) return tool;
    return unwritable(
        fmt::format("tool \"{}\" is run by providers of the {} protocol: leave it out, or choose a "
                    "model that is "
                    "reached through it",
                    tool.name.substr(0, 64), name_of(tool.protocol)));
  }
  Tool fitting{.name = tool.name, .cache = tool.cache};
  if (tool.kind == Tool::Kind::kFreeForm) {
    fitting.description = format_in_words(tool, document);
    fitting.schema = kInputText;
    return fitting;
  }
  fitting.description = tool.description;
  fitting.schema = TRY(object_schema(tool, document));
  if (!tool.strict.value_or(false)) return fitting;
  if (traits.follows_schemas)
    fitting.strict = true;
  else
    omit(omitted, "strict");
  return fitting;
}

// A conversation with tool calls is refused when it declares no tools.
std::vector<Tool> tools_of_history(const Request& request) {
  std::vector<Tool> tools;
  std::unordered_set<std::string_view> declared;
  for (const Message& message : request.messages)
    for (const Part& part : message.parts) {
      const auto* call = std::get_if<ToolCallPart>(&part.content);
      if (call != nullptr && declared.insert(call->name).second)
        tools.push_back({.name = call->name, .schema = std::string(kAnyObject)});
    }
  return tools;
}

}  // namespace

Result<void> write_foreign_tools(JsonWriter& json, const Request& request,
                                 const ModelTraits& traits, Omitted& omitted) {
  std::vector<Tool> tools;
  JsonDocument document;
  for (const Tool& tool : request.tools)
    tools.push_back(TRY(fitting_tool(tool, traits, document, omitted)));
  if (tools.empty()) tools = tools_of_history(request);
  if (tools.empty()) return {};
  json.key("tools").begin_array();
  for (const Tool& tool : tools) write_tool(json, tool);
  json.end_array();
  return {};
}

}  // namespace pons::models::messages
