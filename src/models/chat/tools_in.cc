#include <fmt/format.h>

#include "chat/chat.h"

namespace pons::models::chat {

namespace {

Result<void> read_function(const JsonNode& function, Tool& tool) {
  tool.name = TRY(function.string_at("name"));
  tool.description = TRY(function.string_or("description", ""));
  tool.strict = TRY(function.bool_at("strict"));
  if (const auto schema = function.find("parameters")) {
    TRY_VOID(schema->expect_object());
    tool.schema = schema->raw();
  }
  return {};
}

// The format is kept as Responses writes it: a grammar's syntax and definition stand beside its
// type there, and one level deeper here.
Result<void> read_custom(const JsonNode& custom, Tool& tool) {
  tool.kind = Tool::Kind::kFreeForm;
  tool.name = TRY(custom.string_at("name"));
  tool.description = TRY(custom.string_or("description", ""));
  const auto format = custom.find("format");
  if (!format) return {};
  TRY_VOID(format->expect_object());
  const auto grammar = format->find("grammar");
  const JsonNode& said = grammar ? *grammar : *format;
  if (!grammar && !(said.find("syntax") && said.find("definition"))) {
    tool.schema = format->raw();
    return {};
  }
  JsonWriter(tool.schema)
      .begin_object()
      .field("type", "grammar")
      .field("syntax", TRY(said.string_at("syntax")))
      .field("definition", TRY(said.string_at("definition")))
      .end_object();
  return {};
}

Result<Tool> read_tool(const JsonNode& node) {
  Tool tool;
  const std::string_view type = TRY(node.string_or("type", "function"));
  if (type == "function") {
    const JsonNode function = TRY(node.at("function"));
    TRY_VOID(read_function(function, tool));
  } else if (type == "custom") {
    const JsonNode custom = TRY(node.at("custom"));
    TRY_VOID(read_custom(custom, tool));
  } else {
    tool.kind = Tool::Kind::kServer;
    tool.name = type;
    tool.schema = node.raw();
    tool.protocol = Protocol::kChat;
    return tool;
  }
  if (tool.name.empty()) return node.error("a tool's name must not be empty");
  tool.cache = TRY(read_cache_hint(node));
  return tool;
}

Result<void> read_choice_word(const JsonNode& choice, ToolChoice& read) {
  using Kind = ToolChoice::Kind;
  const std::string_view word = TRY(choice.as_string());
  if (word == "auto")
    read.kind = Kind::kAuto;
  else if (word == "required" || word == "any")
    read.kind = Kind::kAny;
  else if (word == "none")
    read.kind = Kind::kNone;
  else
    return choice.error(fmt::format("\"{}\" is not a choice of tools", word.substr(0, 64)));
  return {};
}

Result<void> read_choice(const JsonNode& choice, Request& request) {
  if (choice.is_string()) return read_choice_word(choice, request.tool_choice);
  const std::string_view type = TRY(choice.string_at("type"));
  if (type == "function" || type == "custom") {
    request.tool_choice.kind = ToolChoice::Kind::kOne;
    const JsonNode one = TRY(choice.at(type));
    request.tool_choice.name = TRY(one.string_at("name"));
    return {};
  }
  if (type != "allowed_tools")
    return TRY(choice.at("type"))
        .error(fmt::format("\"{}\" is not a choice of tools", type.substr(0, 64)));
  // Which tools are allowed has no place in the common form; whether one must be called has.
  const JsonNode allowed = TRY(choice.at("allowed_tools"));
  const JsonNode mode = TRY(allowed.at("mode"));
  TRY_VOID(read_choice_word(mode, request.tool_choice));
  request.extras.push_back({.name = "tool_choice", .json = choice.raw()});
  return {};
}

}  // namespace

Result<void> read_tools(const JsonNode& root, Request& request) {
  if (const auto tools = root.find("tools"))
    TRY_VOID(tools->for_each([&](const JsonNode& node) -> Result<void> {
      request.tools.push_back(TRY(read_tool(node)));
      return {};
    }));
  if (const auto choice = root.find("tool_choice")) TRY_VOID(read_choice(*choice, request));
  request.parallel_tools = TRY(root.bool_at("parallel_tool_calls"));
  return {};
}

}  // namespace pons::models::chat
