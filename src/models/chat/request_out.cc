#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "chat/chat.h"
#include "pons/models/thinking.h"

namespace pons::models::chat {

namespace {

constexpr std::size_t kStopsMax = 4;       // OpenAI refuses more
constexpr std::size_t kUserBytesMax = 64;  // and a longer name

// Without these the answer would be another one.
constexpr std::array<std::string_view, 13> kMeaningful = {"n",
                                                          "logprobs",
                                                          "top_logprobs",
                                                          "modalities",
                                                          "audio",
                                                          "prompt",
                                                          "background",
                                                          "conversation",
                                                          "container",
                                                          "web_search_options",
                                                          "mcp_servers",
                                                          "previous_response_id",
                                                          "best_of"};
// Where the prompt is cached without being asked to, hints are not missed.
constexpr std::array<std::string_view, 3> kCacheHints = {"prompt_cache_key", "cache_control",
                                                         "prompt_cache_retention"};

bool says_nothing(std::string_view name, std::string_view json) {
  return json == "null" || json == "false" || json == "0" || json == "[]" || json == "{}" ||
         json == "\"\"" || (name == "n" && json == "1");
}

Result<void> omit_extras(const Request& request, Omitted& omitted) {
  for (const ExtraField& extra : request.extras) {
    if (says_nothing(extra.name, extra.json)) continue;
    if (std::ranges::find(kMeaningful, extra.name) != kMeaningful.end())
      return refusal(fmt::format(
          "{}: has no place in chat, which this model's provider speaks, and the answer depends on "
          "it: leave it out or choose another model",
          extra.name));
    if (std::ranges::find(kCacheHints, extra.name) == kCacheHints.end()) omit(omitted, extra.name);
  }
  return {};
}

std::string_view effort_of(const Request& request, std::string_view model, Omitted& omitted) {
  const bool is_off = request.thinking.kind == ThinkingWish::Kind::kOff;
  if (request.protocol != Protocol::kMessages)
    return is_off ? "none" : std::string_view(request.thinking.effort);
  // In Messages it is what holds anyhow; here, models that cannot think refuse the word.
  if (is_off) omit(omitted, "thinking");
  return openai_effort(request.thinking, model);
}

void write_limits(JsonWriter& json, const Request& request, std::string_view model) {
  if (!request.output_tokens_max) return;
  // Models that think know only the newer name, and older compatible servers only the older. Who
  // speaks this protocol knows which it wants.
  const bool newer = request.protocol == Protocol::kChat
                         ? request.has_newer_limit
                         : request.thinking.kind != ThinkingWish::Kind::kUnset ||
                               request.protocol == Protocol::kResponses || wants_newer_limit(model);
  json.field(newer ? "max_completion_tokens" : "max_tokens", *request.output_tokens_max);
}

void write_sampling(JsonWriter& json, const Request& request, Omitted& omitted) {
  const bool own = request.protocol == Protocol::kChat;
  if (request.temperature) json.field("temperature", *request.temperature);
  if (request.top_p) json.field("top_p", *request.top_p);
  if (request.seed) json.field("seed", *request.seed);
  if (request.top_k && own) json.field("top_k", *request.top_k);
  if (request.top_k && !own) omit(omitted, "top_k");
  if (request.stop.empty()) return;
  const std::size_t kept = own ? request.stop.size() : std::min(request.stop.size(), kStopsMax);
  if (kept < request.stop.size()) omit(omitted, "stop");
  json.key("stop").begin_array();
  for (std::size_t i = 0; i < kept; ++i) json.string(request.stop[i]);
  json.end_array();
}

void write_format(JsonWriter& json, const OutputFormat& format) {
  if (format.kind == OutputFormat::Kind::kText) return;
  json.key("response_format").begin_object();
  if (format.kind == OutputFormat::Kind::kJson) {
    json.field("type", "json_object").end_object();
    return;
  }
  json.field("type", "json_schema").key("json_schema").begin_object();
  json.field("name", format.name.empty() ? "answer" : std::string_view(format.name));
  if (!format.description.empty()) json.field("description", format.description);
  if (!format.schema.empty()) json.raw_field("schema", format.schema);
  if (format.strict) json.field("strict", *format.strict);
  json.end_object().end_object();
}

void write_user(JsonWriter& json, const Request& request, Omitted& omitted) {
  if (request.user.empty()) return;
  if (request.protocol != Protocol::kChat && request.user.size() > kUserBytesMax)
    omit(omitted, "user");
  else
    json.field("user", request.user);
}

}  // namespace

void omit(Omitted& omitted, std::string_view name) {
  if (std::ranges::find(omitted, name) == omitted.end()) omitted.emplace_back(name);
}

Error refusal(std::string message) {
  return make_error(ErrorCode::kInvalid, "write request", std::move(message));
}

Result<std::string> write_request(const Request& request, std::string_view model,
                                  Omitted& omitted) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("model", model);
  TRY_VOID(write_messages(json, request, omitted));
  TRY_VOID(write_tools(json, request));
  write_limits(json, request, model);
  write_sampling(json, request, omitted);
  if (const auto effort = effort_of(request, model, omitted); !effort.empty())
    json.field("reasoning_effort", effort);
  if (!request.thinking.summary.empty()) omit(omitted, "reasoning.summary");
  write_format(json, request.format);
  write_user(json, request, omitted);
  if (request.stream)
    json.field("stream", true).raw_field("stream_options", R"({"include_usage":true})");
  if (request.protocol == Protocol::kChat)
    for (const ExtraField& extra : request.extras) json.raw_field(extra.name, extra.json);
  else
    TRY_VOID(omit_extras(request, omitted));
  json.end_object();
  return out;
}

}  // namespace pons::models::chat
