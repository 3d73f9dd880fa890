#include "event_input.h"

#include <fmt/format.h>

#include "event_id.h"
#include "pons/base/text.h"

namespace pons::managed {

namespace {

constexpr std::size_t kEventsMax = 50;
constexpr std::size_t kBlocksMax = 200;
constexpr std::size_t kContentBytesMax = 5 << 20;

Result<void> check_words(const JsonPlace& place, const char* key) {
  if (!has_value(place, key)) return place.refuse(fmt::format("\"{}\" is missing", key));
  if (trim(TRY(place.at(key).text())).empty()) return place.at(key).refuse("is empty");
  return {};
}

Result<void> check_source(const JsonPlace& place) {
  const std::string type = TRY(type_of(place, {"base64", "url", "text", "file"}));
  if (type == "file") return place.refuse("files cannot be named here; send the bytes");
  if (type == "url") return check_words(place, "url");
  TRY_VOID(check_words(place, "media_type"));
  return check_words(place, "data");
}

Result<void> check_block(const JsonPlace& place, bool is_tool_result) {
  const std::string type = is_tool_result
                               ? TRY(type_of(place, {"text", "image", "document", "search_result"}))
                               : TRY(type_of(place, {"text", "image", "document"}));
  if (type == "text") {
    TRY_VOID(place.expect_object({"type", "text"}));
    return check_words(place, "text");
  }
  if (type == "search_result") return {};
  TRY_VOID(place.expect_object({"type", "source", "title", "context"}));
  if (!has_value(place, "source")) return place.refuse("\"source\" is missing");
  return check_source(place.at("source"));
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

Result<session::Seq> read_call(const JsonPlace& place, const char* key, std::string_view session) {
  const std::string text = TRY(needed_text(place, key, {.min = 1, .max = 128}));
  const auto id = parse_event_id(session, text);
  if (!id || id->part != Part::kItself) return place.at(key).refuse("is no event of this session");
  return id->seq;
}

Result<session::Event> read_decision(const JsonPlace& place, std::string_view session) {
  TRY_VOID(
      place.expect_object({"type", "tool_use_id", "result", "deny_message", "session_thread_id"}));
  session::UserDecision decision{.call = TRY(read_call(place, "tool_use_id", session))};
  const auto result = TRY(optional_word(place, "result", {"allow", "deny"}));
  if (!result) return place.refuse("\"result\" is missing");
  decision.allowed = *result == "allow";
  decision.message = TRY(optional_text(place, "deny_message", {.max = 4'096})).value_or("");
  if (decision.allowed && !decision.message.empty())
    return place.at("deny_message").refuse("is for \"deny\" only");
  return decision;
}

Result<session::Event> read_result(const JsonPlace& place, const char* key,
                                   std::string_view session) {
  TRY_VOID(place.expect_object({"type", key, "content", "is_error", "session_thread_id"}));
  return session::UserToolResult{.call = TRY(read_call(place, key, session)),
                                 .content = TRY(read_content(place, true)),
                                 .is_error = TRY(flag_or(place, "is_error", false))};
}

}  // namespace

Result<session::Event> read_input(const JsonPlace& place, std::string_view session, Inputs which) {
  const std::string type =
      which == Inputs::kInitial
          ? TRY(type_of(place, {"user.message", "system.message", "user.define_outcome"}))
          : TRY(type_of(place, {"user.message", "user.interrupt", "user.tool_confirmation",
                                "user.custom_tool_result", "user.tool_result",
                                "user.define_outcome", "system.message"}));
  if (type == "user.message" || type == "system.message") {
    TRY_VOID(place.expect_object({"type", "content"}));
    return session::UserMessage{.content = TRY(read_content(place, false)),
                                .dedupe = {},
                                .of_system = type == "system.message"};
  }
  if (type == "user.interrupt") {
    TRY_VOID(place.expect_object({"type", "session_thread_id"}));
    return session::Interrupted{};
  }
  if (type == "user.tool_confirmation") return read_decision(place, session);
  if (type == "user.custom_tool_result") return read_result(place, "custom_tool_use_id", session);
  if (type == "user.tool_result") return read_result(place, "tool_use_id", session);
  return place.refuse("outcomes are not supported");
}

Result<std::vector<session::Event>> read_inputs(const JsonPlace& place, const char* key,
                                                std::string_view session, Inputs which) {
  std::vector<session::Event> events;
  if (!has_value(place, key)) return events;
  const JsonPlace list = place.at(key);
  TRY_VOID(list.expect_list(kEventsMax));
  for (std::size_t i = 0; i < list.value.size(); ++i)
    events.push_back(TRY(read_input(list.at(i), session, which)));
  return events;
}

}  // namespace pons::managed
