#include "event_input.h"

#include <algorithm>

#include <fmt/format.h>

#include "event_id.h"
#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/session/media.h"
#include "thread_id.h"

namespace pons::managed {

namespace {

constexpr std::size_t kEventsMax = 50;
constexpr std::size_t kBlocksMax = 200;
constexpr std::size_t kContentBytesMax = 5 << 20;
constexpr TextLimits kTitle{.max = 500};
constexpr TextLimits kContext{.max = 100'000};

Result<void> check_words(const JsonPlace& place, const char* key) {
  if (!has_value(place, key)) return place.refuse(fmt::format("\"{}\" is missing", key));
  if (trim(TRY(place.at(key).text())).empty()) return place.at(key).refuse("is empty");
  return {};
}

// What a provider does not take, it does not take in any later question of the session either.
// Files that were named are bytes by now (named_files.h).
Result<void> check_source(const JsonPlace& place, const std::string& kind) {
  const std::string type = TRY(type_of(place, {"base64", "url", "text"}));
  if (type == "url") {
    TRY_VOID(place.expect_object({"type", "url"}));
    return check_words(place, "url");
  }
  TRY_VOID(place.expect_object({"type", "media_type", "data", "file_id"}));
  TRY_VOID(check_words(place, "media_type"));
  TRY_VOID(check_words(place, "data"));
  const std::string media_type = TRY(place.at("media_type").text());
  // Text is text in one of them, and bytes in the other.
  if ((type == "text") != (media_type == "text/plain") || (type == "text" && kind == "image"))
    return place.at("media_type").refuse(fmt::format("is not what \"{}\" is for", type));
  if (const auto good = session::check_media(kind, media_type, TRY(place.at("data").text())); !good)
    return place.refuse(good.error().message);
  return {};
}

Result<void> check_search_result(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"type", "source", "title", "content", "citations"}));
  TRY_VOID(check_words(place, "source"));
  TRY_VOID(check_words(place, "title"));
  TRY_VOID(place.at("content").expect_list(kBlocksMax));
  for (std::size_t i = 0; i < place.value["content"].size(); ++i) {
    const JsonPlace block = place.at("content").at(i);
    TRY(type_of(block, {"text"}));
    TRY_VOID(block.expect_object({"type", "text"}));
    TRY_VOID(check_words(block, "text"));
  }
  if (!has_value(place, "citations")) return {};
  TRY_VOID(place.at("citations").expect_object({"enabled"}));
  TRY_VOID(flag_or(place.at("citations"), "enabled", false));
  return {};
}

Result<void> check_block(const JsonPlace& place, bool is_tool_result) {
  const std::string type = is_tool_result
                               ? TRY(type_of(place, {"text", "image", "document", "search_result"}))
                               : TRY(type_of(place, {"text", "image", "document"}));
  if (type == "text") {
    TRY_VOID(place.expect_object({"type", "text"}));
    return check_words(place, "text");
  }
  if (type == "search_result") return check_search_result(place);
  TRY_VOID(place.expect_object({"type", "source", "title", "context"}));
  TRY_VOID(optional_text(place, "title", kTitle));
  TRY_VOID(optional_text(place, "context", kContext));
  if (!has_value(place, "source")) return place.refuse("\"source\" is missing");
  return check_source(place.at("source"), type);
}

Result<std::string> read_content(const JsonPlace& place, bool is_tool_result) {
  if (!has_value(place, "content")) {
    if (is_tool_result) return std::string("[]");
    return place.refuse("\"content\" is missing");
  }
  const JsonPlace content = place.at("content");
  if (content.value.is_string()) {
    TRY_VOID(check_words(place, "content"));
    return dump_json(Json::array({{{"type", "text"}, {"text", content.value}}}));
  }
  TRY_VOID(content.expect_list(kBlocksMax));
  if (content.value.empty() && !is_tool_result) return content.refuse("is empty");
  for (std::size_t i = 0; i < content.value.size(); ++i)
    TRY_VOID(check_block(content.at(i), is_tool_result));
  std::string text = dump_json(content.value);
  if (text.size() > kContentBytesMax)
    return content.refuse(fmt::format("is longer than {}", human_bytes(kContentBytesMax)));
  return text;
}

struct CalledBy {
  std::string session;
  session::Seq call = 0;
};

// An id says which log its event is of, so that nobody has to say which thread they answer.
Result<CalledBy> read_call(const JsonPlace& place, const char* key, const Recipients& recipients) {
  const std::string text = TRY(needed_text(place, key, {.min = 1, .max = 128}));
  const auto found_in = [&](const std::string& session) -> std::optional<CalledBy> {
    const auto id = parse_event_id(session, text);
    if (!id || id->part != Part::kItself) return std::nullopt;
    return CalledBy{.session = session, .call = id->seq};
  };
  if (auto found = found_in(recipients.session)) return std::move(*found);
  for (const std::string& thread : recipients.threads)
    if (auto found = found_in(thread)) return std::move(*found);
  return place.at(key).refuse("is no event of this session");
}

Result<Input> read_decision(const JsonPlace& place, const Recipients& recipients) {
  TRY_VOID(
      place.expect_object({"type", "tool_use_id", "result", "deny_message", "session_thread_id"}));
  CalledBy called = TRY(read_call(place, "tool_use_id", recipients));
  session::UserDecision decision{.call = called.call};
  const auto result = TRY(optional_word(place, "result", {"allow", "deny"}));
  if (!result) return place.refuse("\"result\" is missing");
  decision.allowed = *result == "allow";
  decision.message = TRY(optional_text(place, "deny_message", {.max = 4'096})).value_or("");
  if (decision.allowed && !decision.message.empty())
    return place.at("deny_message").refuse("is for \"deny\" only");
  return Input{.event = std::move(decision), .session = std::move(called.session)};
}

Result<Input> read_result(const JsonPlace& place, const char* key, const Recipients& recipients) {
  TRY_VOID(place.expect_object({"type", key, "content", "is_error", "session_thread_id"}));
  CalledBy called = TRY(read_call(place, key, recipients));
  return Input{.event = session::UserToolResult{.call = called.call,
                                                .content = TRY(read_content(place, true)),
                                                .is_error = TRY(flag_or(place, "is_error", false))},
               .session = std::move(called.session)};
}

Result<Input> read_interrupt(const JsonPlace& place, const Recipients& recipients) {
  TRY_VOID(place.expect_object({"type", "session_thread_id"}));
  const auto thread = TRY(optional_text(place, "session_thread_id", {.min = 1, .max = 128}));
  const std::string session =
      thread ? parse_thread_id(recipients.session, *thread).value_or("") : recipients.session;
  if (session != recipients.session &&
      std::ranges::find(recipients.threads, session) == recipients.threads.end())
    return place.at("session_thread_id").refuse("is no thread of this session");
  return Input{.event = session::Interrupted{}, .session = session};
}

Result<session::Event> read_outcome(const JsonPlace& place) {
  constexpr std::size_t kRubricMax = 262'144;
  constexpr std::size_t kDescriptionMax = 100'000;
  constexpr std::int64_t kIterations = 3;
  constexpr std::int64_t kIterationsMax = 20;
  TRY_VOID(place.expect_object({"type", "description", "rubric", "max_iterations"}));
  session::OutcomeDefined outcome{
      .id = "outc_" + random_text(26),
      .description = TRY(needed_text(place, "description", {.min = 1, .max = kDescriptionMax}))};
  if (!has_value(place, "rubric")) return place.refuse("\"rubric\" is missing");
  const JsonPlace rubric = place.at("rubric");
  TRY(type_of(rubric, {"text"}));
  TRY_VOID(rubric.expect_object({"type", "content"}));
  outcome.rubric = TRY(needed_text(rubric, "content", {.min = 1, .max = kRubricMax}));
  outcome.iterations_max = kIterations;
  if (has_value(place, "max_iterations"))
    outcome.iterations_max =
        static_cast<std::int64_t>(TRY(place.at("max_iterations").number(1, kIterationsMax)));
  return outcome;
}

Result<session::Event> read_message(const JsonPlace& place, bool of_system) {
  TRY_VOID(place.expect_object({"type", "content"}));
  session::UserMessage message{
      .content = TRY(read_content(place, false)), .dedupe = {}, .of_system = of_system};
  const JsonPlace content = place.at("content");
  if (of_system && content.value.is_array())
    for (std::size_t i = 0; i < content.value.size(); ++i)
      TRY_VOID(type_of(content.at(i), {"text"}));
  return message;
}

// It speaks with the weight of whoever runs the agent: once, at the end, and about something.
Result<void> check_system_message(const JsonPlace& list, std::size_t index) {
  if (list.value[index]["type"] != "system.message") return {};
  if (index + 1 != list.value.size())
    return list.at(index).refuse("system.message must be the last event");
  const std::string before = index == 0 ? "" : list.value[index - 1].value("type", "");
  if (before != "user.message" && before != "user.tool_result" &&
      before != "user.custom_tool_result")
    return list.at(index).refuse(
        "system.message must directly follow the user.message, user.tool_result or "
        "user.custom_tool_result that it belongs to");
  return {};
}

}  // namespace

Result<Input> read_input(const JsonPlace& place, const Recipients& recipients, Inputs which) {
  const std::string type =
      which == Inputs::kInitial
          ? TRY(type_of(place, {"user.message", "system.message", "user.define_outcome"}))
          : TRY(type_of(place, {"user.message", "user.interrupt", "user.tool_confirmation",
                                "user.custom_tool_result", "user.tool_result",
                                "user.define_outcome", "system.message"}));
  if (type == "user.interrupt") return read_interrupt(place, recipients);
  if (type == "user.tool_confirmation") return read_decision(place, recipients);
  if (type == "user.custom_tool_result")
    return read_result(place, "custom_tool_use_id", recipients);
  if (type == "user.tool_result") return read_result(place, "tool_use_id", recipients);
  session::Event event = type == "user.define_outcome"
                             ? TRY(read_outcome(place))
                             : TRY(read_message(place, type == "system.message"));
  return Input{.event = std::move(event), .session = recipients.session};
}

Result<std::vector<Input>> read_inputs(const JsonPlace& place, const char* key,
                                       const Recipients& recipients, Inputs which) {
  std::vector<Input> inputs;
  if (!has_value(place, key)) return inputs;
  const JsonPlace list = place.at(key);
  TRY_VOID(list.expect_list(kEventsMax));
  bool has_outcome = false;
  for (std::size_t i = 0; i < list.value.size(); ++i) {
    inputs.push_back(TRY(read_input(list.at(i), recipients, which)));
    TRY_VOID(check_system_message(list, i));
    const bool is_outcome = std::holds_alternative<session::OutcomeDefined>(inputs.back().event);
    if (is_outcome && has_outcome)
      return list.at(i).refuse("a session works toward one outcome at a time");
    has_outcome |= is_outcome;
  }
  return inputs;
}

}  // namespace pons::managed
