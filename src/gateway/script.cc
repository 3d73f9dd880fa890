#include "script.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/json_place.h"
#include "situation.h"

namespace pons::gateway {

namespace {

using models::Failing;
using models::Stop;

constexpr std::uint64_t kMsMax = 3'600'000;
constexpr std::size_t kEntriesMax = 1'000;

template <class Value>
struct Word {
  std::string_view word;
  Value value;
};

constexpr Word<Stop> kStops[] = {{"end", Stop::kEnd},
                                 {"max_tokens", Stop::kMaxTokens},
                                 {"tool_use", Stop::kToolUse},
                                 {"stop_sequence", Stop::kStopSequence},
                                 {"refusal", Stop::kRefusal},
                                 {"pause", Stop::kPause},
                                 {"context_window", Stop::kContextWindow}};
constexpr Word<Failing> kFailings[] = {{"invalid_request", Failing::kInvalidRequest},
                                       {"authentication", Failing::kAuthentication},
                                       {"permission", Failing::kPermission},
                                       {"not_found", Failing::kNotFound},
                                       {"context_length", Failing::kContextLength},
                                       {"rate_limit", Failing::kRateLimit},
                                       {"overloaded", Failing::kOverloaded},
                                       {"timeout", Failing::kTimeout},
                                       {"upstream", Failing::kUpstream}};

template <class Value, std::size_t N>
Result<Value> word_at(const JsonPlace& place, const Word<Value> (&words)[N]) {
  const std::string text = TRY(place.text());
  for (const auto& [word, value] : words)
    if (word == text) return value;
  std::string known;
  for (const auto& entry : words)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.word);
  return place.refuse("must be one of " + known);
}

Result<std::string> text_at(const JsonPlace& place, const char* key) {
  return place.has(key) ? place.at(key).text() : Result<std::string>(std::string());
}

Result<std::uint64_t> number_at(const JsonPlace& place, const char* key, std::uint64_t max) {
  return place.has(key) ? place.at(key).number(0, max) : Result<std::uint64_t>(0);
}

Result<ScriptedAnswer::When> read_when(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"user", "system", "tool_result", "model", "turn"}));
  ScriptedAnswer::When when{.user = TRY(text_at(place, "user")),
                            .system = TRY(text_at(place, "system")),
                            .tool_result = TRY(text_at(place, "tool_result")),
                            .model = TRY(text_at(place, "model")),
                            .turn = std::nullopt};
  if (place.has("turn")) when.turn = TRY(place.at("turn").number(0, kEntriesMax));
  return when;
}

Result<models::Usage> read_usage(const JsonPlace& place) {
  TRY_VOID(place.expect_object(
      {"input", "output", "cache_read", "cache_write", "cache_write_hour", "reasoning"}));
  constexpr std::uint64_t kTokensMax = 1'000'000'000;
  const auto at = [&](const char* key) -> Result<std::int64_t> {
    return static_cast<std::int64_t>(TRY(number_at(place, key, kTokensMax)));
  };
  models::Usage usage{.input = TRY(at("input")),
                      .cache_read = TRY(at("cache_read")),
                      .cache_write = TRY(at("cache_write")),
                      .cache_write_hour = TRY(at("cache_write_hour")),
                      .output = TRY(at("output"))};
  if (place.has("reasoning")) usage.reasoning = TRY(at("reasoning"));
  return usage;
}

Result<void> read_tools(const JsonPlace& place, models::Answer& answer) {
  TRY_VOID(place.expect_list(kEntriesMax));
  for (std::size_t i = 0; i < place.value.size(); ++i) {
    const JsonPlace tool = place.at(i);
    TRY_VOID(tool.expect_object({"name", "input", "id"}));
    if (!tool.has("name")) return tool.refuse("\"name\" is missing");
    models::ToolCallPart call{.id = TRY(text_at(tool, "id")), .name = TRY(tool.at("name").text())};
    call.input = tool.has("input") ? dump_json(tool.at("input").value) : "{}";
    answer.parts.push_back({.content = std::move(call)});
  }
  answer.stop = Stop::kToolUse;
  return {};
}

Result<void> read_failure(const JsonPlace& place, ScriptedAnswer& answer) {
  TRY_VOID(place.expect_object({"kind", "message", "retry_after", "after"}));
  models::Failure failure{.message = TRY(text_at(place, "message"))};
  if (place.has("kind")) failure.kind = TRY(word_at(place.at("kind"), kFailings));
  if (failure.message.empty()) failure.message = "the script says so";
  if (place.has("retry_after"))
    failure.retry_after = std::chrono::seconds(TRY(place.at("retry_after").number(0, 3'600)));
  answer.failure_after = TRY(number_at(place, "after", kEntriesMax));
  answer.failure = std::move(failure);
  return {};
}

Result<ScriptedAnswer> read_answer(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"when", "text", "thinking", "tools", "stop", "stop_sequence",
                                "usage", "delay_ms", "chunk_bytes", "chunk_ms", "fail", "end"}));
  ScriptedAnswer answer;
  if (place.has("when")) answer.when = TRY(read_when(place.at("when")));
  if (place.has("thinking"))
    answer.answer.parts.push_back(
        {.content = models::ThinkingPart{.text = TRY(place.at("thinking").text()),
                                         .proof = "c2NyaXB0ZWQ="}});
  if (place.has("text"))
    answer.answer.parts.push_back(
        {.content = models::TextPart{.text = TRY(place.at("text").text())}});
  if (place.has("tools")) TRY_VOID(read_tools(place.at("tools"), answer.answer));
  if (place.has("stop")) answer.answer.stop = TRY(word_at(place.at("stop"), kStops));
  answer.answer.stop_sequence = TRY(text_at(place, "stop_sequence"));
  if (place.has("usage")) {
    answer.answer.usage = TRY(read_usage(place.at("usage")));
    answer.has_usage = true;
  }
  answer.delay = std::chrono::milliseconds(TRY(number_at(place, "delay_ms", kMsMax)));
  answer.chunk_bytes = TRY(number_at(place, "chunk_bytes", 1U << 20U));
  answer.chunk_delay = std::chrono::milliseconds(TRY(number_at(place, "chunk_ms", kMsMax)));
  if (place.has("fail")) TRY_VOID(read_failure(place.at("fail"), answer));
  using End = ScriptedAnswer::End;
  constexpr Word<End> kEnds[] = {
      {"whole", End::kWhole}, {"break", End::kBreak}, {"hang", End::kHang}};
  if (place.has("end")) answer.end = TRY(word_at(place.at("end"), kEnds));
  return answer;
}

bool holds(const ScriptedAnswer::When& when, const Situation& now, std::string_view model) {
  const auto has = [](const std::string& text, const std::string& wanted) {
    return text.find(wanted) != std::string::npos;
  };
  return has(now.user, when.user) && has(now.system, when.system) &&
         has(now.tool_result, when.tool_result) && (when.model.empty() || when.model == model) &&
         (!when.turn || *when.turn == now.turn);
}

}  // namespace

Result<Script> Script::parse(std::string_view json) {
  const Json document = TRY(parse_json(json));
  const JsonPlace root{.value = document, .pointer = {}};
  TRY_VOID(root.expect_object({"answers"}));
  if (!root.has("answers")) return root.refuse("\"answers\" is missing");
  const JsonPlace list = root.at("answers");
  TRY_VOID(list.expect_list(kEntriesMax));
  Script script;
  for (std::size_t i = 0; i < list.value.size(); ++i)
    script.answers_.push_back(TRY(read_answer(list.at(i))));
  return script;
}

const ScriptedAnswer* Script::find(const models::Request& request, std::string_view model) const {
  const Situation now = Situation::of(request);
  const auto found = std::ranges::find_if(
      answers_, [&](const ScriptedAnswer& answer) { return holds(answer.when, now, model); });
  return found == answers_.end() ? nullptr : &*found;
}

}  // namespace pons::gateway
