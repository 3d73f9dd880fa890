#include "responses/answer_out.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

namespace pons::models::responses {

namespace {

std::string stem_of(std::string_view id) {
  for (const std::string_view prefix : {"resp_", "msg_", "chatcmpl-"})
    if (id.starts_with(prefix)) {
      id.remove_prefix(prefix.size());
      break;
    }
  // Clients take ids of up to 64 characters; this one gets a prefix and a number.
  constexpr std::size_t kStemMax = 48;
  std::string stem;
  for (const char c : id.substr(0, kStemMax))
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-') stem += c;
  return stem.empty() ? "0" : stem;
}

void raw_or(JsonWriter& json, const Request& request, std::string_view name,
            std::string_view otherwise) {
  const auto* const said = find_extra(request.extras, name);
  json.raw_field(name, said != nullptr ? std::string_view(*said) : otherwise);
}

void string_or_null(JsonWriter& json, std::string_view name, std::string_view text) {
  json.key(name);
  text.empty() ? json.null() : json.string(text);
}

std::string tools_json(const Request& request) {
  std::string out;
  JsonWriter json(out);
  json.begin_array();
  if (!write_tools(json, request)) return "[]";
  json.end_array();
  return out;
}

void write_text(JsonWriter& json, const Request& request) {
  json.key("text");
  if (request.format.kind != OutputFormat::Kind::kText) {
    write_text_wish(json, request);
    return;
  }
  json.begin_object().raw_field("format", R"({"type":"text"})");
  if (const auto* verbosity = find_extra(request.extras, "text.verbosity"))
    json.raw_field("verbosity", *verbosity);
  json.end_object();
}

std::string repeated_fields(const Request& request) {
  std::string out;
  JsonWriter json(out);
  raw_or(json, request, "background", "false");
  string_or_null(json, "instructions", instructions_of(request).value_or(""));
  json.key("max_output_tokens");
  request.output_tokens_max ? json.integer(*request.output_tokens_max) : json.null();
  raw_or(json, request, "metadata", "{}");
  json.field("parallel_tool_calls", request.parallel_tools.value_or(true));
  raw_or(json, request, "previous_response_id", "null");
  raw_or(json, request, "prompt_cache_key", "null");
  json.key("reasoning").begin_object();
  string_or_null(json, "effort", request.thinking.effort);
  string_or_null(json, "summary", request.thinking.summary);
  json.end_object();
  raw_or(json, request, "safety_identifier", "null");
  json.field("service_tier", "default");
  raw_or(json, request, "store", "false");
  json.field("temperature", request.temperature.value_or(1.0));
  write_text(json, request);
  json.key("tool_choice");
  write_tool_choice(json, request);
  json.raw_field("tools", tools_json(request));
  raw_or(json, request, "top_logprobs", "0");
  json.field("top_p", request.top_p.value_or(1.0));
  raw_or(json, request, "truncation", R"("disabled")");
  string_or_null(json, "user", request.user);
  return out;
}

void write_usage(JsonWriter& json, const Usage& usage) {
  json.begin_object().field("input_tokens", usage.prompt());
  json.key("input_tokens_details").begin_object().field("cached_tokens", usage.cache_read);
  json.field("cache_write_tokens", usage.cache_write + usage.cache_write_hour).end_object();
  json.field("output_tokens", usage.output);
  json.key("output_tokens_details").begin_object();
  json.field("reasoning_tokens", usage.reasoning.value_or(0)).end_object();
  json.field("total_tokens", usage.prompt() + usage.output).end_object();
}

}  // namespace

Ending ending_of(Stop stop, bool has_refusal) {
  if (stop == Stop::kMaxTokens || stop == Stop::kContextWindow)
    return {.status = "incomplete", .incomplete_reason = "max_output_tokens"};
  // A refusal in words is a whole answer.
  if (stop == Stop::kRefusal && !has_refusal)
    return {.status = "incomplete", .incomplete_reason = "content_filter"};
  return {.status = "completed"};
}

ResponseObject::ResponseObject(const Request& request)
    : repeated_(repeated_fields(request)), model_(request.model) {
  begin("", "");
}

void ResponseObject::begin(std::string_view answer_id, std::string_view model) {
  stem_ = stem_of(answer_id);
  id_ = "resp_" + stem_;
  if (!model.empty()) model_ = model;
}

void ResponseObject::go_on(std::string id, std::string model) {
  id_ = std::move(id);
  model_ = std::move(model);
}

std::string ResponseObject::item_id(const Part& part, std::size_t index) const {
  std::string_view prefix = "msg";
  if (const auto* call = std::get_if<ToolCallPart>(&part.content))
    prefix = call->free_form ? "ctc" : "fc";
  if (const auto* thinking = std::get_if<ThinkingPart>(&part.content)) {
    if (auto own = reasoning_id(*thinking);
        thinking->author == Protocol::kResponses && !own.empty())
      return own;
    prefix = "rs";
  }
  return fmt::format("{}_{}_{}", prefix, stem_, index);
}

void ResponseObject::write(JsonWriter& json, const Ending& ending, std::string_view items,
                           const Usage* usage) const {
  json.begin_object().field("id", id_).field("object", "response").field("created_at", 0);
  json.field("status", ending.status).key("error");
  if (ending.failure != nullptr)
    json.begin_object()
        .field("code", failure_code(*ending.failure))
        .field("message", ending.failure->message)
        .end_object();
  else
    json.null();
  json.key("incomplete_details");
  if (ending.incomplete_reason.empty())
    json.null();
  else
    json.begin_object().field("reason", ending.incomplete_reason).end_object();
  json.field("model", model_).key("output").begin_array();
  if (!items.empty()) json.raw(items);
  json.end_array().raw(repeated_).key("usage");
  if (usage != nullptr)
    write_usage(json, *usage);
  else
    json.null();
  json.end_object();
}

std::string write_answer(const Answer& answer, const Request& request) {
  ResponseObject response(request);
  response.begin(answer.id, answer.model);
  std::vector<OutputItem> items;
  bool has_refusal = false;
  for (const Part& part : answer.parts) {
    auto visible = shown(part, request);
    if (!visible) continue;
    has_refusal = has_refusal || std::holds_alternative<RefusalPart>(visible->content);
    if (items.empty() || !joins_message(items.back(), *visible))
      items.push_back({.id = response.item_id(*visible, items.size())});
    items.back().parts.push_back(std::move(*visible));
  }
  const Ending ending = ending_of(answer.stop, has_refusal);
  std::string output;
  JsonWriter output_json(output);
  for (const OutputItem& item : items)
    write_item(output_json, item, &item == &items.back() ? ending.status : "completed");
  std::string out;
  JsonWriter json(out);
  response.write(json, ending, output, &answer.usage);
  return out;
}

}  // namespace pons::models::responses
