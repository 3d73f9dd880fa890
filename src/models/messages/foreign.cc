#include "messages/foreign.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/models/facts.h"
#include "pons/models/thinking.h"

namespace pons::models::messages {

namespace {

constexpr std::int64_t kAnswerTokensMin = 1'024;
constexpr std::int64_t kBudgetTokensMin = 1'024;
constexpr std::size_t kUserBytesMax = 256;

// 406 of "claude-opus-4-6", 300 of "claude-3-opus-20240229"; nothing when it is no Claude.
std::optional<int> claude_version(std::string_view model) {
  const std::size_t at = model.find("claude");
  if (at == std::string_view::npos) return std::nullopt;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::array<int, 2> numbers = {};
  std::size_t count = 0;
  for (std::size_t i = at; i < model.size() && count < numbers.size(); ++i) {
    if (!is_digit(model[i])) {
      // The numbers of a version stand side by side.
      if (count == 1 && model[i] != '-' && model[i] != '.') break;
      continue;
    }
    const std::size_t end = std::min(model.find_first_not_of("0123456789", i), model.size());
    if (end - i > 2) break;  // a date
    for (; i < end; ++i) numbers[count] = numbers[count] * 10 + (model[i] - '0');
    --i;
    ++count;
  }
  constexpr int kNewest = 9'900;  // names without a number are those of previews
  return count == 0 ? kNewest : numbers[0] * 100 + numbers[1];
}

// These ask for another answer than the one that would come without them.
bool changes_the_answer(const ExtraField& extra) {
  constexpr std::array<std::string_view, 14> kNames = {
      "n",          "logprobs",  "top_logprobs",  "previous_response_id", "conversation",
      "background", "prompt",    "container",     "mcp_servers",          "audio",
      "modalities", "functions", "function_call", "web_search_options"};
  if (std::ranges::find(kNames, extra.name) == kNames.end()) return false;
  if (extra.json == "null" || extra.json == "false" || extra.json == "0" || extra.json == "[]")
    return false;
  if (extra.name == "n") return extra.json != "1";
  if (extra.name == "modalities") return extra.json != R"(["text"])";
  return true;
}

Result<void> leave_extras(const Request& request, Omitted& omitted) {
  for (const ExtraField& extra : request.extras) {
    if (changes_the_answer(extra))
      return unwritable(fmt::format(
          "{}: this model's provider has nothing like it; leave it out, or choose a model that is "
          "reached through the {} protocol",
          extra.name.substr(0, 64), name_of(request.protocol)));
    if (extra.json != "null" && !(extra.name == "n" && extra.json == "1"))
      omit(omitted, extra.name);
  }
  return {};
}

bool is_forced(const ToolChoice& choice) {
  return choice.kind == ToolChoice::Kind::kAny || choice.kind == ToolChoice::Kind::kOne;
}

bool has_calls(const Request& request) {
  for (const Message& message : request.messages)
    for (const Part& part : message.parts)
      if (std::holds_alternative<ToolCallPart>(part.content)) return true;
  return false;
}

Result<void> fit_tool_choice(const Request& request, Request& fields) {
  using Kind = ToolChoice::Kind;
  if (request.tools.empty()) {
    if (is_forced(request.tool_choice))
      return unwritable("tool_choice: there are no tools to choose from");
    // The tools of the history are declared, and must not be called.
    fields.tool_choice = {.kind = has_calls(request) ? Kind::kNone : Kind::kUnset};
    fields.parallel_tools.reset();
    return {};
  }
  if (fields.parallel_tools.value_or(true) || fields.tool_choice.kind == Kind::kNone)
    fields.parallel_tools.reset();
  else if (fields.tool_choice.kind == Kind::kUnset)
    fields.tool_choice.kind = Kind::kAuto;
  return {};
}

// With a budget, a turn of tool calls that the answer goes on from must begin with thinking.
bool allows_thinking(const Turns& turns, const Request& request, const ModelTraits& traits) {
  if (is_forced(request.tool_choice)) return false;
  const auto& last = turns.turns.back();
  if (last.role == Role::kAssistant) return false;
  if (traits.thinks_adaptively || turns.turns.size() < 2) return true;
  const Part* answer = turns.turns[turns.turns.size() - 2].parts.front();
  return !std::holds_alternative<ToolResultPart>(last.parts.front()->content) ||
         std::holds_alternative<ThinkingPart>(answer->content);
}

// Anthropic knows neither "none" nor "minimal".
std::string_view anthropic_effort(std::string_view effort) {
  constexpr std::array<std::string_view, 5> kKnown = {"low", "medium", "high", "xhigh", "max"};
  if (effort == "minimal") return "low";
  return std::ranges::find(kKnown, effort) != kKnown.end() ? effort : "medium";
}

void fit_adaptive(const ThinkingWish& asked, Request& fields) {
  using Kind = ThinkingWish::Kind;
  fields.thinking = {.kind = Kind::kAdaptive};
  if (asked.kind == Kind::kBudget)
    fields.thinking.effort = anthropic_effort(effort_of_budget(asked.budget_tokens));
  else if (!asked.effort.empty())
    fields.thinking.effort = anthropic_effort(asked.effort);
  if (!asked.summary.empty())
    fields.extras.push_back({.name = "thinking.display", .json = R"("summarized")"});
}

void fit_budget(const ThinkingWish& asked, Request& fields, Omitted& omitted) {
  using Kind = ThinkingWish::Kind;
  const std::int64_t wanted =
      asked.kind == Kind::kBudget ? asked.budget_tokens : budget_of_effort(asked.effort);
  const std::int64_t room = *fields.output_tokens_max - kAnswerTokensMin;
  if (room < kBudgetTokensMin) {
    omit(omitted, "thinking");
    return;
  }
  fields.thinking = {.kind = Kind::kBudget,
                     .budget_tokens = std::clamp(wanted, kBudgetTokensMin, room)};
}

void fit_thinking(const Request& request, const ModelTraits& traits, const Turns& turns,
                  Request& fields, Omitted& omitted) {
  using Kind = ThinkingWish::Kind;
  const ThinkingWish& asked = request.thinking;
  fields.thinking = {};
  if (asked.kind == Kind::kUnset) return;
  if (asked.kind == Kind::kOff || (asked.kind == Kind::kEffort && asked.effort == "none")) {
    fields.thinking.kind = Kind::kOff;
    return;
  }
  if (!allows_thinking(turns, request, traits)) {
    omit(omitted, "thinking");
    return;
  }
  if (traits.thinks_adaptively)
    fit_adaptive(asked, fields);
  else
    fit_budget(asked, fields, omitted);
}

template <class Value>
void leave_out(std::optional<Value>& value, std::string_view name, Omitted& omitted) {
  if (!value) return;
  value.reset();
  omit(omitted, name);
}

void fit_sampling(const ModelTraits& traits, Request& fields, Omitted& omitted) {
  using Kind = ThinkingWish::Kind;
  const bool thinks =
      fields.thinking.kind == Kind::kBudget || fields.thinking.kind == Kind::kAdaptive;
  if (thinks || !traits.takes_sampling) {
    leave_out(fields.temperature, "temperature", omitted);
    leave_out(fields.top_k, "top_k", omitted);
  }
  constexpr double kTopPMinWithThinking = 0.95;
  if (fields.top_p && (!traits.takes_sampling || fields.temperature ||
                       (thinks && *fields.top_p < kTopPMinWithThinking)))
    leave_out(fields.top_p, "top_p", omitted);
  // OpenAI's scale ends at 2, Anthropic's at 1: what lies above is as random as it gets.
  if (fields.temperature) fields.temperature = std::min(*fields.temperature, 1.0);
  leave_out(fields.seed, "seed", omitted);
}

}  // namespace

ModelTraits traits_of(std::string_view model) {
  const auto version = claude_version(model);
  if (!version) return {};
  const bool is_opus = model.find("opus") != std::string_view::npos;
  return {.thinks_adaptively = *version >= 406,
          .takes_sampling = *version < 407,
          .follows_schemas = *version >= 405 || (is_opus && *version == 401)};
}

Result<Request> fitting_fields(const Request& request, const ModelTraits& traits,
                               const Turns& turns, Omitted& omitted) {
  TRY_VOID(leave_extras(request, omitted));
  Request fields{.tool_choice = request.tool_choice,
                 .parallel_tools = request.parallel_tools,
                 .output_tokens_max = request.output_tokens_max.value_or(kOutputTokensDefault),
                 .temperature = request.temperature,
                 .top_p = request.top_p,
                 .top_k = request.top_k,
                 .seed = request.seed,
                 .stream = request.stream};
  TRY_VOID(fit_tool_choice(request, fields));
  fit_thinking(request, traits, turns, fields, omitted);
  fit_sampling(traits, fields, omitted);
  if (traits.follows_schemas && !request.format.schema.empty()) fields.format = request.format;
  for (const std::string& sequence : request.stop) {
    if (sequence.find_first_not_of(" \t\r\n") == std::string::npos)
      omit(omitted, "stop");
    else
      fields.stop.push_back(sequence);
  }
  if (request.user.size() <= kUserBytesMax)
    fields.user = request.user;
  else
    omit(omitted, "user");
  return fields;
}

std::string format_instruction(const Request& request, const ModelTraits& traits,
                               Omitted& omitted) {
  using Kind = OutputFormat::Kind;
  const auto& format = request.format;
  const bool has_schema = format.kind == Kind::kSchema && !format.schema.empty();
  if (format.kind == Kind::kText || (has_schema && traits.follows_schemas)) return {};
  omit(omitted, "response_format");  // asked for in words: there is no guarantee
  if (!has_schema) return "Answer with one JSON object and nothing else.";
  return "Answer with one JSON value and nothing else. It must be valid against this JSON "
         "schema:\n" +
         format.schema;
}

}  // namespace pons::models::messages
