#include <algorithm>

#include <fmt/format.h>

#include "responses/responses.h"

namespace pons::models::responses {

namespace {

Result<void> read_tool_extras(const JsonNode& node, Tool& tool) {
  return node.for_each_field([&](std::string_view key, const JsonNode& value) -> Result<void> {
    static constexpr std::string_view kKnown[] = {"type",       "name",   "description",
                                                  "parameters", "strict", "format"};
    if (value.is_null() || std::ranges::find(kKnown, key) != std::end(kKnown)) return {};
    tool.extras.push_back({.name = std::string(key), .json = value.raw()});
    return {};
  });
}

Result<Tool> read_function(const JsonNode& node) {
  Tool tool{.kind = Tool::Kind::kFunction, .name = std::string(TRY(node.string_at("name")))};
  tool.description = TRY(node.string_or("description", ""));
  tool.strict = TRY(node.bool_at("strict"));
  if (const auto parameters = node.find("parameters")) {
    TRY_VOID(parameters->expect_object());
    tool.schema = parameters->raw();
  }
  TRY_VOID(read_tool_extras(node, tool));
  return tool;
}

Result<Tool> read_free_form(const JsonNode& node) {
  Tool tool{.kind = Tool::Kind::kFreeForm, .name = std::string(TRY(node.string_at("name")))};
  tool.description = TRY(node.string_or("description", ""));
  if (const auto format = node.find("format")) {
    TRY_VOID(format->expect_object());
    tool.schema = format->raw();
  }
  TRY_VOID(read_tool_extras(node, tool));
  return tool;
}

Tool server_tool(const JsonNode& node, std::string_view type) {
  return {.kind = Tool::Kind::kServer,
          .name = std::string(type),
          .schema = node.raw(),
          .protocol = Protocol::kResponses};
}

// Nothing for a tool that the service runs itself.
Result<std::optional<Tool>> read_own_tool(const JsonNode& node) {
  const auto type = TRY(node.string_at("type"));
  if (type == "function") return std::optional(TRY(read_function(node)));
  if (type == "custom") return std::optional(TRY(read_free_form(node)));
  return std::optional<Tool>();
}

Result<void> read_namespace(const JsonNode& node, std::vector<Tool>& out) {
  const auto space = TRY(node.string_at("name"));
  const auto description = TRY(node.string_or("description", ""));
  const auto inner = TRY(node.at("tools"));
  std::vector<Tool> tools;
  bool all_known = !space.empty();
  TRY_VOID(inner.for_each([&](const JsonNode& each) -> Result<void> {
    auto tool = TRY(read_own_tool(each));
    all_known = all_known && tool;
    if (!all_known) return {};
    tool->space = space;
    tool->space_description = description;
    tools.push_back(std::move(*tool));
    return {};
  }));
  if (!all_known || tools.empty()) {
    out.push_back(server_tool(node, "namespace"));
    return {};
  }
  out.insert(out.end(), std::make_move_iterator(tools.begin()),
             std::make_move_iterator(tools.end()));
  return {};
}

}  // namespace

Result<void> read_tools(const JsonNode& tools, std::vector<Tool>& out) {
  return tools.for_each([&](const JsonNode& node) -> Result<void> {
    const auto type = TRY(node.string_at("type"));
    if (type == "namespace") return read_namespace(node, out);
    if (auto own = TRY(read_own_tool(node)))
      out.push_back(std::move(*own));
    else
      out.push_back(server_tool(node, type));
    return {};
  });
}

Result<void> read_tool_choice(const JsonNode& choice, Request& request) {
  using Kind = ToolChoice::Kind;
  ToolChoice& out = request.tool_choice;
  if (choice.is_string()) {
    const auto word = TRY(choice.as_string());
    if (word == "auto")
      out.kind = Kind::kAuto;
    else if (word == "required")
      out.kind = Kind::kAny;
    else if (word == "none")
      out.kind = Kind::kNone;
    else
      return choice.error(fmt::format("\"{}\" is not a choice of tools", word));
    return {};
  }
  const auto type = TRY(choice.string_at("type"));
  if (type == "function" || type == "custom") {
    out = {.kind = Kind::kOne, .name = std::string(TRY(choice.string_at("name")))};
    return {};
  }
  // allowed_tools and the tools of the service: only it can keep to them.
  const bool is_free = type == "allowed_tools" && TRY(choice.string_or("mode", "auto")) == "auto";
  out.kind = is_free ? Kind::kAuto : Kind::kAny;
  request.extras.push_back({.name = "tool_choice", .json = choice.raw()});
  return {};
}

}  // namespace pons::models::responses
