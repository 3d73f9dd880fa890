#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/models/thinking.h"
#include "responses/responses.h"

namespace pons::models::responses {

namespace {

Error refused(std::string message) {
  return make_error(ErrorCode::kInvalid, "write request", std::move(message));
}

bool is_own(const Request& request) {
  return request.protocol == Protocol::kResponses;
}

bool thinks(const ThinkingWish& wish) {
  return wish.kind != ThinkingWish::Kind::kUnset && wish.kind != ThinkingWish::Kind::kOff;
}

// Of Chat, with the same name and meaning here.
constexpr std::array<std::string_view, 5> kSharedWithChat = {
    "metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier"};

struct Forbidden {
  std::string_view name;
  std::string_view harmless;  // the value that asks for nothing
  std::string_view advice;
};
constexpr std::array<Forbidden, 10> kForbidden = {{
    {"n", "1", "send one request for each answer"},
    {"logprobs", "false", "leave it out"},
    {"top_logprobs", "0", "leave it out"},
    {"modalities", R"(["text"])", "ask for text only"},
    {"audio", "", "ask for text only"},
    {"web_search_options", "", "give the model a search tool of your own"},
    {"container", "", "run code in a tool of your own"},
    {"mcp_servers", "[]", "call the servers from your side"},
    {"tool_choice", "", "name one tool, or any, auto or none"},
    {"functions", "[]", "use \"tools\""},
}};

Result<void> check_extra(const ExtraField& extra) {
  const auto* const found = std::ranges::find(kForbidden, extra.name, &Forbidden::name);
  if (found == kForbidden.end() || extra.json == found->harmless) return {};
  return refused(fmt::format("{}: a provider of the Responses protocol cannot do this; {}",
                             extra.name, found->advice));
}

bool is_harmless(const ExtraField& extra) {
  return std::ranges::find(kForbidden, extra.name, &Forbidden::name) != kForbidden.end();
}

void write_own_extras(JsonWriter& json, const Request& request) {
  for (const ExtraField& extra : request.extras)
    if (!extra.name.starts_with("reasoning.") && !extra.name.starts_with("text.") &&
        extra.name != "tool_choice")
      json.raw_field(extra.name, extra.json);
}

Result<void> write_foreign_extras(JsonWriter& json, const Request& request, Omitted& omitted) {
  const bool is_chat = request.protocol == Protocol::kChat;
  for (const ExtraField& extra : request.extras) {
    TRY_VOID(check_extra(extra));
    if (is_chat && std::ranges::find(kSharedWithChat, extra.name) != kSharedWithChat.end())
      json.raw_field(extra.name, extra.json);
    else if (!is_harmless(extra) &&
             !(is_chat && (extra.name == "verbosity" || extra.name == "store")))
      omitted.push_back(extra.name);
  }
  // Other protocols keep nothing at the provider unless asked.
  const auto* const store = is_chat ? find_extra(request.extras, "store") : nullptr;
  json.raw_field("store", store != nullptr ? *store : "false");
  // What a provider does not keep must come back to it; models that do not reason refuse the field.
  if (thinks(request.thinking))
    json.key("include").begin_array().string("reasoning.encrypted_content").end_array();
  return {};
}

Result<void> write_foreign_limits(JsonWriter& json, const Request& request, Omitted& omitted) {
  if (!request.stop.empty())
    return refused(
        "stop: the Responses protocol has no stop sequences; leave them out, or choose a model of "
        "another provider");
  if (request.top_k) omitted.emplace_back("top_k");
  if (request.seed) omitted.emplace_back("seed");
  // The service refuses smaller ones.
  constexpr std::int64_t kOutputTokensMin = 16;
  if (request.output_tokens_max)
    json.field("max_output_tokens", std::max(*request.output_tokens_max, kOutputTokensMin));
  // The service refuses longer names; a digest names the same user each time.
  constexpr std::size_t kUserMax = 64;
  if (!request.user.empty())
    json.field("user", request.user.size() > kUserMax ? sha256_hex(request.user) : request.user);
  return {};
}

void write_own_limits(JsonWriter& json, const Request& request) {
  if (request.output_tokens_max) json.field("max_output_tokens", *request.output_tokens_max);
  if (!request.user.empty()) json.field("user", request.user);
}

std::string_view effort_of(const Request& request, std::string_view model) {
  if (request.protocol == Protocol::kMessages) return openai_effort(request.thinking, model);
  return request.thinking.kind == ThinkingWish::Kind::kOff
             ? "none"
             : std::string_view(request.thinking.effort);
}

void write_nested_extras(JsonWriter& json, const Request& request, std::string_view prefix) {
  if (!is_own(request)) return;
  for (const ExtraField& extra : request.extras)
    if (extra.name.starts_with(prefix))
      json.raw_field(std::string_view(extra.name).substr(prefix.size()), extra.json);
}

void write_format(JsonWriter& json, const OutputFormat& format) {
  using Kind = OutputFormat::Kind;
  json.key("format").begin_object();
  if (format.kind == Kind::kText) {
    json.field("type", "text");
  } else if (format.kind == Kind::kJson) {
    json.field("type", "json_object");
  } else {
    // The service wants a name, and others have none.
    json.field("type", "json_schema").field("name", format.name.empty() ? "answer" : format.name);
    if (!format.description.empty()) json.field("description", format.description);
    json.raw_field("schema", format.schema.empty() ? "{}" : format.schema);
    if (format.strict) json.field("strict", *format.strict);
  }
  json.end_object();
}

}  // namespace

const std::string* find_extra(const std::vector<ExtraField>& extras, std::string_view name) {
  const auto found = std::ranges::find(extras, name, &ExtraField::name);
  return found == extras.end() ? nullptr : &found->json;
}

std::optional<std::string> instructions_of(const Request& request) {
  if (request.messages.empty()) return std::nullopt;
  const Message& first = request.messages.front();
  // Where others have no such field, what the system says first is what it is for.
  const bool fits = is_own(request) ? first.is_instructions : first.role == Role::kSystem;
  if (!fits || first.parts.empty()) return std::nullopt;
  std::string text;
  for (const Part& part : first.parts) {
    const auto* said = std::get_if<TextPart>(&part.content);
    if (said == nullptr) return std::nullopt;
    if (&part != &first.parts.front()) text += "\n\n";
    text += said->text;
  }
  return text;
}

void write_reasoning_wish(JsonWriter& json, const Request& request, std::string_view model) {
  const ThinkingWish& wish = request.thinking;
  json.begin_object();
  if (const auto effort = effort_of(request, model); !effort.empty()) json.field("effort", effort);
  // Clients of Messages that ask for thinking expect to see it.
  const bool shows = request.protocol == Protocol::kMessages && thinks(wish);
  if (!wish.summary.empty())
    json.field("summary", wish.summary);
  else if (shows)
    json.field("summary", "auto");
  write_nested_extras(json, request, "reasoning.");
  json.end_object();
}

void write_text_wish(JsonWriter& json, const Request& request) {
  json.begin_object();
  if (request.format.kind != OutputFormat::Kind::kText) write_format(json, request.format);
  write_nested_extras(json, request, "text.");
  if (request.protocol == Protocol::kChat)
    if (const auto* verbosity = find_extra(request.extras, "verbosity"))
      json.raw_field("verbosity", *verbosity);
  json.end_object();
}

Result<std::string> write_request(const Request& request, std::string_view model,
                                  Omitted& omitted) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("model", model);
  if (const auto instructions = instructions_of(request)) json.field("instructions", *instructions);
  json.key("input").begin_array();
  TRY_VOID(write_input(json, request, omitted));
  json.end_array();
  if (!request.tools.empty()) {
    json.key("tools").begin_array();
    TRY_VOID(write_tools(json, request));
    json.end_array();
  }
  if (request.tool_choice.kind != ToolChoice::Kind::kUnset) {
    json.key("tool_choice");
    write_tool_choice(json, request);
  }
  if (request.parallel_tools) json.field("parallel_tool_calls", *request.parallel_tools);
  if (request.temperature) json.field("temperature", *request.temperature);
  if (request.top_p) json.field("top_p", *request.top_p);
  // An empty object asks for nothing.
  std::string wish;
  JsonWriter wish_json(wish);
  write_reasoning_wish(wish_json, request, model);
  if (wish != "{}") json.raw_field("reasoning", wish);
  // It is what holds anyhow, and models that always think, or never do, refuse the word.
  if (request.protocol == Protocol::kMessages && request.thinking.kind == ThinkingWish::Kind::kOff)
    omitted.emplace_back("thinking");
  wish.clear();
  JsonWriter text_json(wish);
  write_text_wish(text_json, request);
  if (wish != "{}") json.raw_field("text", wish);
  if (is_own(request)) {
    write_own_limits(json, request);
    write_own_extras(json, request);
  } else {
    TRY_VOID(write_foreign_limits(json, request, omitted));
    TRY_VOID(write_foreign_extras(json, request, omitted));
  }
  if (request.stream) json.field("stream", true);
  json.end_object();
  return out;
}

}  // namespace pons::models::responses
