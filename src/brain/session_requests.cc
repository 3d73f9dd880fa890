#include "session_requests.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/json_place.h"
#include "pons/base/text.h"
#include "pons/session/media.h"

namespace pons::brain {

namespace {

using session::Event;
using session::UserMessage;

constexpr std::size_t kTitleBytesMax = 256;
constexpr std::size_t kDedupeBytesMax = 256;
constexpr std::size_t kSystemBytesMax = 100'000;
constexpr std::size_t kModelBytesMax = 256;
constexpr std::size_t kBlocksMax = 200;
// Made by Pons; a client that took such a one could stand in the way of another's agents.
constexpr std::string_view kOwnIds = "ses_";
constexpr std::size_t kEventsMax = 50;

Result<std::string> text_at(const JsonPlace& place, const char* key, std::size_t bytes_max) {
  if (!place.has(key)) return std::string();
  std::string text = TRY(place.at(key).text());
  if (text.size() > bytes_max)
    return place.at(key).refuse(fmt::format("is longer than {}", human_bytes(bytes_max)));
  // Some of these are columns of the store, which holds none.
  if (text.find('\0') != std::string::npos) return place.at(key).refuse("holds a NUL");
  return text;
}

// No model takes a text of nothing, and none takes the conversation that has one in it.
Result<void> expect_words(const JsonPlace& place) {
  if (trim(TRY(place.text())).empty()) return place.refuse("is empty");
  return {};
}

// {"type": "base64" or "text", "media_type", "data"} or {"type": "url", "url"}
Result<void> check_source(const JsonPlace& place, const std::string& kind) {
  if (!place.value.is_object() || !place.has("type")) return place.refuse("must have a \"type\"");
  const std::string type = TRY(place.at("type").text());
  const std::vector<const char*> keys =
      type == "base64" || type == "text" ? std::vector{"media_type", "data"} : std::vector{"url"};
  if (type != "base64" && type != "text" && type != "url")
    return place.at("type").refuse("must be base64, text or url");
  for (const char* key : keys) {
    if (!place.has(key)) return place.refuse(fmt::format("\"{}\" is missing", key));
    TRY_VOID(expect_words(place.at(key)));
  }
  if (type == "url") {
    const std::string url = TRY(place.at("url").text());
    if (!url.starts_with("https://") && !url.starts_with("http://"))
      return place.at("url").refuse("must be written as https://host/path");
    return {};
  }
  const std::string media_type = TRY(place.at("media_type").text());
  // Text is text in one of them, and bytes in the other.
  if ((type == "text") != (media_type == "text/plain") || (type == "text" && kind == "image"))
    return place.at("media_type").refuse(fmt::format("is not what \"{}\" is for", type));
  if (const auto good = session::check_media(kind, media_type, TRY(place.at("data").text())); !good)
    return place.refuse(good.error().message);
  return {};
}

Result<void> check_block(const JsonPlace& place) {
  if (!place.value.is_object() || !place.has("type")) return place.refuse("must be a block");
  const std::string type = TRY(place.at("type").text());
  if (type == "text") {
    TRY_VOID(place.expect_object({"type", "text"}));
    if (!place.has("text")) return place.refuse("a text block has a text");
    return expect_words(place.at("text"));
  }
  if (type == "image" || type == "document") {
    TRY_VOID(place.expect_object({"type", "source", "title", "context"}));
    if (!place.has("source")) return place.refuse("\"source\" is missing");
    return check_source(place.at("source"), type);
  }
  return place.at("type").refuse("must be text, image or document");
}

// Text, or a list of blocks, as a list of blocks.
Result<std::string> content_at(const JsonPlace& place) {
  if (place.value.is_string()) {
    TRY_VOID(expect_words(place));
    return dump_json(Json::array({{{"type", "text"}, {"text", TRY(place.text())}}}));
  }
  TRY_VOID(place.expect_list(kBlocksMax));
  if (place.value.empty()) return place.refuse("is empty");
  for (std::size_t i = 0; i < place.value.size(); ++i) TRY_VOID(check_block(place.at(i)));
  return dump_json(place.value);
}

Result<UserMessage> message_of(const JsonPlace& place, const char* key) {
  UserMessage message{.content = TRY(content_at(place.at(key)))};
  if (message.content.size() > kMessageBytesMax)
    return place.at(key).refuse(fmt::format("is longer than {}", human_bytes(kMessageBytesMax)));
  message.dedupe = TRY(text_at(place, "dedupe", kDedupeBytesMax));
  return message;
}

// For lists: the beginning of what somebody wants.
std::string title_of(const Json& message) {
  constexpr std::size_t kTitleBytes = 60;
  if (!message.is_string()) return {};
  const std::string_view text = trim(message.get_ref<const std::string&>());
  std::string title(text.substr(0, std::min(text.find('\n'), kTitleBytes)));
  while (!title.empty() && !is_valid_utf8(title)) title.pop_back();
  std::ranges::replace_if(title, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, ' ');
  if (title.size() < text.size()) title += " …";
  return title;
}

// {"call", "allow", "message"}: to a call that a person has to allow.
Result<Event> decision_of(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"type", "call", "allow", "message"}));
  for (const char* key : {"call", "allow"})
    if (!place.has(key)) return place.refuse(fmt::format("\"{}\" is missing", key));
  constexpr std::uint64_t kSeqMax = 1'000'000'000;
  return session::UserDecision{
      .call = static_cast<session::Seq>(TRY(place.at("call").number(1, kSeqMax))),
      .allowed = TRY(place.at("allow").flag()),
      .message = TRY(text_at(place, "message", 4'096))};
}

Result<Event> input_of(const JsonPlace& place) {
  if (!place.value.is_object() || !place.has("type")) return place.refuse("must have a \"type\"");
  const std::string type = TRY(place.at("type").text());
  if (type == "user.message") {
    TRY_VOID(place.expect_object({"type", "text", "content", "dedupe"}));
    if (place.has("text") == place.has("content"))
      return place.refuse("must have either \"text\" or \"content\"");
    return TRY(message_of(place, place.has("text") ? "text" : "content"));
  }
  if (type == "user.answer") {
    TRY_VOID(place.expect_object({"type", "call", "text"}));
    if (!place.has("call")) return place.refuse("\"call\" is missing");
    constexpr std::uint64_t kSeqMax = 1'000'000'000;
    session::UserAnswer answer{
        .call = static_cast<session::Seq>(TRY(place.at("call").number(1, kSeqMax))),
        .text = TRY(text_at(place, "text", kMessageBytesMax))};
    if (answer.text.empty()) return place.refuse("\"text\" is missing");  // blank is an answer, too
    return answer;
  }
  if (type == "user.interrupt") {
    TRY_VOID(place.expect_object({"type"}));
    return session::Interrupted{};
  }
  if (type == "user.decision") return decision_of(place);
  return place.at("type").refuse(
      "must be user.message, user.answer, user.decision or user.interrupt");
}

Result<session::AgentSpec> agent_of(const JsonPlace& place, const Agents& agents) {
  const std::string name =
      place.has("agent") ? TRY(place.at("agent").text()) : std::string("default");
  const auto found = agents.find(name);
  if (found == agents.end())
    return make_error(
        ErrorCode::kNotFound, "find agent",
        fmt::format("there is no agent \"{}\": put it under `agents` in pons.yaml", name));
  session::AgentSpec agent = found->second;
  if (place.has("model")) agent.model = TRY(text_at(place, "model", kModelBytesMax));
  if (place.has("system")) agent.system = TRY(text_at(place, "system", kSystemBytesMax));
  if (place.has("budget_tokens")) {
    const auto wished =
        static_cast<std::int64_t>(TRY(place.at("budget_tokens").number(1, 1'000'000'000'000)));
    // The operator's word is the last one.
    agent.budget_tokens = agent.budget_tokens == 0 ? wished : std::min(wished, agent.budget_tokens);
  }
  if (agent.model.empty())
    return place.refuse("the agent has no model: set agents.default.model in pons.yaml");
  return agent;
}

// Made of the caller's project, too: nobody else can stand in its way.
std::string id_for_dedupe(std::string_view project, std::string_view dedupe) {
  constexpr std::size_t kDigits = 26;
  return std::string(kOwnIds) +
         sha256_hex(fmt::format("new session\n{}\n{}", project, dedupe)).substr(0, kDigits);
}

}  // namespace

Result<session::NewSession> parse_new_session(std::string_view body, const std::string& project,
                                              const Agents& agents) {
  const Json json = TRY(parse_json(body.empty() ? "{}" : body));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_object(
      {"agent", "model", "system", "title", "id", "message", "dedupe", "budget_tokens"}));
  session::NewSession wish{.project = project, .agent = TRY(agent_of(place, agents))};
  wish.title = TRY(text_at(place, "title", kTitleBytesMax));
  wish.id = TRY(text_at(place, "id", 64));
  if (!wish.id.empty() && !is_id_text(wish.id))
    return place.at("id").refuse("may hold letters, digits, - and _ only");
  if (wish.id.starts_with(kOwnIds)) return place.at("id").refuse("must not begin with ses_");
  // Sent again because the answer was lost, it makes no second one.
  if (const std::string dedupe = TRY(text_at(place, "dedupe", kDedupeBytesMax));
      wish.id.empty() && !dedupe.empty())
    wish.id = id_for_dedupe(project, dedupe);
  if (place.has("message")) wish.message = TRY(message_of(place, "message"));
  if (wish.title.empty() && place.has("message")) wish.title = title_of(place.at("message").value);
  return wish;
}

Result<std::vector<session::Event>> parse_inputs(std::string_view body) {
  const Json json = TRY(parse_json(body));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_object({"events"}));
  if (!place.has("events")) return place.refuse("\"events\" is missing");
  const JsonPlace list = place.at("events");
  TRY_VOID(list.expect_list(kEventsMax));
  if (list.value.empty()) return list.refuse("is empty");
  std::vector<Event> events;
  for (std::size_t i = 0; i < list.value.size(); ++i) events.push_back(TRY(input_of(list.at(i))));
  return events;
}

Result<session::Seq> parse_fork(std::string_view body) {
  if (body.empty()) return session::Seq{0};
  const Json json = TRY(parse_json(body));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_object({"at"}));
  constexpr std::uint64_t kSeqMax = 1'000'000'000;
  return place.has("at") ? static_cast<session::Seq>(TRY(place.at("at").number(1, kSeqMax))) : 0;
}

}  // namespace pons::brain
