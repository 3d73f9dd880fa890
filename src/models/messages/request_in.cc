#include <algorithm>

#include <fmt/format.h>

#include "messages/blocks_in.h"
#include "messages/wire.h"

namespace pons::models::messages {

namespace {

Result<Role> read_role(const JsonNode& message) {
  const JsonNode role = TRY(message.at("role"));
  const std::string_view name = TRY(role.as_string());
  if (name == "user") return Role::kUser;
  if (name == "assistant") return Role::kAssistant;
  if (name == "system") return Role::kSystem;
  return role.error("must be \"user\", \"assistant\" or \"system\"");
}

Place place_of(Role role) {
  if (role == Role::kUser) return Place::kUser;
  return role == Role::kAssistant ? Place::kAssistant : Place::kSystem;
}

Result<void> read_messages(const JsonNode& root, Request& request) {
  if (const auto system = root.find("system")) {
    auto parts = TRY(read_content(*system, Place::kSystem));
    const bool says_nothing =
        parts.empty() || (system->is_string() && parts[0] == Part{TextPart{}});
    if (!says_nothing) request.messages.push_back({Role::kSystem, std::move(parts)});
  }
  const JsonNode messages = TRY(root.at("messages"));
  bool anyone_spoke = false;
  TRY_VOID(messages.for_each([&](const JsonNode& message) -> Result<void> {
    TRY_VOID(message.expect_object());
    const Role role = TRY(read_role(message));
    const JsonNode content = TRY(message.at("content"));
    request.messages.push_back({role, TRY(read_content(content, place_of(role)))});
    keep_extras(message, std::array<KnownField, 2>{{{"role"}, {"content"}}},
                request.messages.back().extras);
    anyone_spoke = anyone_spoke || role != Role::kSystem;
    return {};
  }));
  if (!anyone_spoke) return messages.error("at least one message of the user is needed");
  return {};
}

Result<void> read_tool(const JsonNode& node, Request& request) {
  TRY_VOID(node.expect_object());
  const std::string_view type = TRY(node.string_or("type", "custom"));
  Tool& tool = request.tools.emplace_back();
  if (type != "custom") {
    tool.kind = Tool::Kind::kServer;
    tool.name = TRY(node.string_or("name", type));
    tool.schema = node.raw();
    return {};
  }
  tool.name = TRY(node.string_at("name"));
  tool.description = TRY(node.string_or("description", ""));
  const JsonNode schema = TRY(node.at("input_schema"));
  TRY_VOID(schema.expect_object());
  tool.schema = schema.raw();
  tool.strict = TRY(node.bool_at("strict"));
  tool.cache = TRY(read_cache(node));
  keep_extras(
      node,
      std::array<KnownField, 6>{
          {{"type"}, {"name"}, {"description"}, {"input_schema"}, {"strict"}, kCacheControl}},
      tool.extras);
  return {};
}

constexpr std::string_view kNoPoint = "no field has a point in its name";

// What an object holds beyond the known goes to the extras under "object.field".
Result<void> keep_inner_extras(const JsonNode& object, std::string_view name,
                               std::initializer_list<std::string_view> known, Request& request) {
  for (const auto& [key, value] : simdjson::dom::object(object.value())) {
    if (std::ranges::find(known, key) != known.end()) continue;
    if (key.find('.') != std::string_view::npos) return object.error(kNoPoint);
    request.extras.push_back({fmt::format("{}.{}", name, key), simdjson::minify(value)});
  }
  return {};
}

Result<void> read_tool_choice(const JsonNode& root, Request& request) {
  const auto choice = root.find("tool_choice");
  if (!choice) return {};
  TRY_VOID(choice->expect_object());
  const JsonNode type = TRY(choice->at("type"));
  const std::string_view name = TRY(type.as_string());
  using Kind = ToolChoice::Kind;
  if (name == "auto") {
    request.tool_choice.kind = Kind::kAuto;
  } else if (name == "any") {
    request.tool_choice.kind = Kind::kAny;
  } else if (name == "none") {
    request.tool_choice.kind = Kind::kNone;
  } else if (name == "tool") {
    request.tool_choice = {.kind = Kind::kOne, .name = std::string(TRY(choice->string_at("name")))};
  } else {
    return type.error("must be \"auto\", \"any\", \"none\" or \"tool\"");
  }
  if (const auto single = TRY(choice->bool_at("disable_parallel_tool_use")))
    request.parallel_tools = !*single;
  return keep_inner_extras(*choice, "tool_choice", {"type", "name", "disable_parallel_tool_use"},
                           request);
}

Result<void> read_thinking_wish(const JsonNode& root, Request& request) {
  const auto thinking = root.find("thinking");
  if (!thinking) return {};
  TRY_VOID(thinking->expect_object());
  const std::string_view type = TRY(thinking->string_at("type"));
  using Kind = ThinkingWish::Kind;
  if (type == "enabled") {
    request.thinking.kind = Kind::kBudget;
    const JsonNode budget = TRY(thinking->at("budget_tokens"));
    request.thinking.budget_tokens = TRY(budget.as_integer());
    if (request.thinking.budget_tokens < 1) return budget.error("must be at least 1");
  } else if (type == "adaptive") {
    request.thinking.kind = Kind::kAdaptive;
  } else if (type == "disabled") {
    request.thinking.kind = Kind::kOff;
  } else {
    request.extras.push_back({.name = "thinking", .json = thinking->raw()});
    return {};
  }
  return keep_inner_extras(*thinking, "thinking", {"type", "budget_tokens"}, request);
}

Result<void> read_format(const JsonNode& format, std::string_view name, Request& request) {
  TRY_VOID(format.expect_object());
  const JsonNode type = TRY(format.at("type"));
  if (TRY(type.as_string()) != "json_schema") return type.error("must be \"json_schema\"");
  const JsonNode schema = TRY(format.at("schema"));
  TRY_VOID(schema.expect_object());
  request.format = {.kind = OutputFormat::Kind::kSchema, .schema = schema.raw()};
  return keep_inner_extras(format, name, {"type", "schema"}, request);
}

Result<void> read_output_config(const JsonNode& root, Request& request) {
  // The name it had before it moved into output_config.
  if (const auto format = root.find("output_format"))
    TRY_VOID(read_format(*format, "output_config.format", request));
  const auto config = root.find("output_config");
  if (!config) return {};
  TRY_VOID(config->expect_object());
  if (const auto effort = config->find("effort")) {
    request.thinking.effort = TRY(effort->as_string());
    if (request.thinking.effort.empty()) return effort->error("must not be empty");
    if (request.thinking.kind == ThinkingWish::Kind::kUnset)
      request.thinking.kind = ThinkingWish::Kind::kEffort;
  }
  if (const auto format = config->find("format"); format && !root.find("output_format"))
    TRY_VOID(read_format(*format, "output_config.format", request));
  return keep_inner_extras(*config, "output_config", {"effort", "format"}, request);
}

Result<void> read_metadata(const JsonNode& root, Request& request) {
  const auto metadata = root.find("metadata");
  if (!metadata) return {};
  TRY_VOID(metadata->expect_object());
  request.user = TRY(metadata->string_or("user_id", ""));
  return keep_inner_extras(*metadata, "metadata", {"user_id"}, request);
}

Result<void> read_limits(const JsonNode& root, Request& request) {
  request.output_tokens_max = TRY(root.integer_at("max_tokens"));
  if (request.output_tokens_max.value_or(0) < 0)
    return TRY(root.at("max_tokens")).error("must not be negative");
  request.temperature = TRY(root.number_at("temperature"));
  request.top_p = TRY(root.number_at("top_p"));
  request.top_k = TRY(root.integer_at("top_k"));
  request.stream = TRY(root.bool_at("stream")).value_or(false);
  if (const auto stop = root.find("stop_sequences"))
    TRY_VOID(stop->for_each([&](const JsonNode& sequence) -> Result<void> {
      request.stop.emplace_back(TRY(sequence.as_string()));
      return {};
    }));
  return {};
}

Result<void> read_unknown(const JsonNode& root, Request& request) {
  constexpr std::array<KnownField, 15> kKnown = {{{"model"},
                                                  {"messages"},
                                                  {"system"},
                                                  {"tools"},
                                                  {"tool_choice"},
                                                  {"max_tokens"},
                                                  {"temperature"},
                                                  {"top_p"},
                                                  {"top_k"},
                                                  {"stop_sequences"},
                                                  {"stream"},
                                                  {"metadata"},
                                                  {"thinking"},
                                                  {"output_config"},
                                                  {"output_format"}}};
  const std::size_t before = request.extras.size();
  keep_extras(root, kKnown, request.extras);
  // A point in a name stands for a field of a field.
  for (std::size_t i = before; i < request.extras.size(); ++i)
    if (request.extras[i].name.find('.') != std::string::npos) return root.error(kNoPoint);
  return {};
}

}  // namespace

Result<Request> read_request(std::string_view body) {
  JsonDocument document;
  const JsonNode root = TRY(document.parse(body));
  TRY_VOID(root.expect_object());
  Request request{.protocol = Protocol::kMessages,
                  .model = std::string(TRY(root.string_at("model")))};
  TRY_VOID(read_messages(root, request));
  if (const auto tools = root.find("tools"))
    TRY_VOID(tools->for_each([&](const JsonNode& tool) { return read_tool(tool, request); }));
  TRY_VOID(read_tool_choice(root, request));
  TRY_VOID(read_thinking_wish(root, request));
  TRY_VOID(read_output_config(root, request));
  TRY_VOID(read_metadata(root, request));
  TRY_VOID(read_limits(root, request));
  TRY_VOID(read_unknown(root, request));
  return request;
}

}  // namespace pons::models::messages
