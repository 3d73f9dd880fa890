#include <algorithm>

#include <fmt/format.h>

#include "responses/responses.h"

namespace pons::models::responses {

namespace {

// Of another protocol, whose functions are loose unless it says strict; here it is the other way.
void write_function(JsonWriter& json, const Tool& tool, bool is_own) {
  json.begin_object().field("type", "function").field("name", tool.name);
  if (!tool.description.empty()) json.field("description", tool.description);
  if (!tool.schema.empty())
    json.raw_field("parameters", tool.schema);
  else
    json.raw_field("parameters", is_own ? "null" : R"({"type":"object","properties":{}})");
  if (tool.strict || !is_own) json.field("strict", tool.strict.value_or(false));
  if (is_own)
    for (const ExtraField& extra : tool.extras) json.raw_field(extra.name, extra.json);
  json.end_object();
}

void write_free_form(JsonWriter& json, const Tool& tool, bool is_own) {
  json.begin_object().field("type", "custom").field("name", tool.name);
  if (!tool.description.empty()) json.field("description", tool.description);
  if (!tool.schema.empty()) json.raw_field("format", tool.schema);
  if (is_own)
    for (const ExtraField& extra : tool.extras) json.raw_field(extra.name, extra.json);
  json.end_object();
}

Result<void> write_tool(JsonWriter& json, const Tool& tool, bool is_own) {
  switch (tool.kind) {
    case Tool::Kind::kFunction:
      write_function(json, tool, is_own);
      return {};
    case Tool::Kind::kFreeForm:
      write_free_form(json, tool, is_own);
      return {};
    case Tool::Kind::kServer:
      break;
  }
  if (tool.protocol != Protocol::kResponses)
    return make_error(
        ErrorCode::kInvalid, "write request",
        fmt::format("tools: \"{}\" runs at providers of {} only; leave it out, or choose a model "
                    "of such a provider",
                    tool.name, name_of(tool.protocol)));
  json.raw(tool.schema);
  return {};
}

bool shares_space(const Tool& a, const Tool& b) {
  return a.space == b.space && a.space_description == b.space_description;
}

}  // namespace

Result<void> write_tools(JsonWriter& json, const Request& request) {
  const bool is_own = request.protocol == Protocol::kResponses;
  const Tool* before = nullptr;  // of the namespace that is open
  for (const Tool& tool : request.tools) {
    if (before != nullptr && !shares_space(*before, tool)) {
      json.end_array().end_object();
      before = nullptr;
    }
    if (before == nullptr && !tool.space.empty()) {
      json.begin_object().field("type", "namespace").field("name", tool.space);
      json.field("description", tool.space_description).key("tools").begin_array();
      before = &tool;
    }
    TRY_VOID(write_tool(json, tool, is_own));
  }
  if (before != nullptr) json.end_array().end_object();
  return {};
}

void write_tool_choice(JsonWriter& json, const Request& request) {
  using Kind = ToolChoice::Kind;
  const ToolChoice& choice = request.tool_choice;
  if (request.protocol == Protocol::kResponses)
    if (const auto* own = find_extra(request.extras, "tool_choice")) {
      json.raw(*own);
      return;
    }
  switch (choice.kind) {
    case Kind::kUnset:
    case Kind::kAuto:
      json.string("auto");
      return;
    case Kind::kAny:
      json.string("required");
      return;
    case Kind::kNone:
      json.string("none");
      return;
    case Kind::kOne:
      break;
  }
  const auto tool = std::ranges::find(request.tools, choice.name, &Tool::name);
  const bool free_form = tool != request.tools.end() && tool->kind == Tool::Kind::kFreeForm;
  json.begin_object().field("type", free_form ? "custom" : "function");
  json.field("name", choice.name).end_object();
}

}  // namespace pons::models::responses
