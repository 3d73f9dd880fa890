#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/session/event.h"

namespace pons::session {
namespace {

constexpr Usage kUsage{.input = 1, .cache_read = 2, .cache_write = 3, .output = 4, .cost_nano = 5};

// One of each, every field set.
std::vector<Event> one_of_each() {
  return {
      Created{.agent = {.name = "n",
                        .model = "m",
                        .system = "s",
                        .sandbox_template = "t",
                        .environment = "e",
                        .network = R"({"mode":"public"})",
                        .tools = {"a", "b"},
                        .asks = {"b"},
                        .custom = {{.name = "c", .definition = R"({"name":"c"})"}},
                        .memory = {{.store = "s",
                                    .name = "n",
                                    .description = "d",
                                    .instructions = "i",
                                    .read_only = true}},
                        .servers = {{.name = "n",
                                     .url = "https://u/",
                                     .toolset = R"({"configs":[]})",
                                     .credential = "C"}},
                        .outside = true,
                        .answer_tokens = 1,
                        .context_tokens = 2,
                        .calls_per_turn = 3,
                        .budget_nano = 4,
                        .budget_tokens = 5,
                        .depth = 6},
              .parent = "p",
              .parent_call = 7,
              .untrusted = true},
      UserMessage{.content = R"([{"type":"text","text":"a\u0000\u001bü"}])", .dedupe = "d"},
      UserAnswer{.call = 1, .text = "yes"},
      Interrupted{},
      TimerFired{},
      Resumed{.epoch = 3, .unpaid = true},
      ModelAsked{.purpose = Purpose::kSummary, .attempt = 2, .digest = "ab"},
      ToolCalled{.asked = 1,
                 .block = 2,
                 .tool_use_id = "u",
                 .name = "n",
                 .input = R"({"a":[1,2.5,null]})",
                 .shown = R"({"a":"x"})",
                 .asks = true},
      Said{.text = "t", .redacted = {"k"}},
      SandboxReleased{.sandbox = "s"},
      TurnEnded{.reason = EndReason::kCallLimit, .message = "m", .active_ms = 7},
      ModelAnswered{.asked = 1,
                    .content = R"([{"type":"text","text":"secret"}])",
                    .shown = R"([{"type":"text","text":"xxxxxx"}])",
                    .redacted = {"k"},
                    .stop_reason = "end_turn",
                    .model = "m",
                    .usage = kUsage,
                    .first_ms = 1,
                    .took_ms = 2},
      ContextSummarised{.asked = 1,
                        .summary = "secret",
                        .shown = "xxxxxx",
                        .redacted = {"k"},
                        .usage = kUsage,
                        .took_ms = 2},
      ModelFailed{.asked = 1,
                  .trouble = Trouble::kTooLong,
                  .fault = ModelFault::kOverloaded,
                  .message = "m",
                  .wait_ms = 3,
                  .redacted = {"key"},
                  .unpaid = true},
      SandboxBound{.call = 1, .sandbox = "s", .sandbox_template = "t", .kept = true},
      ToolEnded{.call = 1,
                .outcome = ToolOutcome::kInterrupted,
                .is_error = true,
                .text = "secret",
                .shown = "xxxxxx",
                .redacted = {"k"},
                .full = "f",
                .full_bytes = 9,
                .usage = kUsage,
                .untrusted = true,
                .took_ms = 4},
      Forked{.from = "f", .at = 3},
      UserDecision{.call = 1, .allowed = true, .message = "m"},
      UserToolResult{.call = 1, .content = R"([{"type":"text","text":"r"}])", .is_error = true},
      AgentChanged{
          .agent = {.name = "n", .model = "m", .asks = {"bash"}, .judged = {"bash", "read"}}},
      Equipping{},
      Equipped{.asked = 3,
               .notes = "secret",
               .tools = {{.server = "s",
                          .name = "n",
                          .alias = "s__n",
                          .definition = R"({"name":"s__n"})",
                          .asks = true}},
               .same_tools = true},
      ServerTrouble{
          .server = "s", .fault = ServerFault::kTools, .message = "m", .redacted = {"key"}},
      ThreadChanged{.call = 3,
                    .seen = 4,
                    .status = ThreadStatus::kWaits,
                    .ended = EndReason::kRefusal,
                    .waits = {5, 6},
                    .posted = R"([{"seq":5}])"},
      OutcomeDefined{.id = "o", .description = "d", .rubric = "r", .iterations_max = 3},
      OutcomeGraded{.asked = 7,
                    .verdict = Verdict::kNeedsRevision,
                    .explanation = "e",
                    .shown = "s",
                    .redacted = {"key"},
                    .usage = {.input = 1},
                    .took_ms = 2},
      AgentCharged{.agent = "a", .usage = {.input = 1, .cost_nano = 2}},
      AccessAsked{.request = "acc_1",
                  .host = "a.example",
                  .port = 443,
                  .wish = R"({"host":"a.example"})",
                  .node = "n"},
      AccessEnded{.request = "acc_1", .outcome = AccessOutcome::kDenied, .message = "no"},
      ModelCharged{.question = "3.1", .usage = {.input = 1, .cost_nano = 2}},
      Updated{.number = 2, .changes = R"({"title":"t"})"},
      ThreadArchived{.call = 5},
      Archived{},
  };
}

TEST(EventJson, EveryEventIsReadBackAsItWas) {
  const auto events = one_of_each();
  ASSERT_EQ(events.size(), std::variant_size_v<Event>);
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].index(), i) << "the list has one of each, in their order";
    const auto again = read_event(type_of(events[i]), write_body(events[i]));
    ASSERT_TRUE(again) << type_of(events[i]) << ": " << again.error().describe();
    EXPECT_EQ(*again, events[i]) << type_of(events[i]);
  }
}

TEST(EventJson, AnEventThatSaysNothingIsReadBack) {
  for (const Event& whole : one_of_each()) {
    const Event empty = std::visit(
        [](const auto& event) -> Event { return std::decay_t<decltype(event)>{}; }, whole);
    const auto again = read_event(type_of(empty), write_body(empty));
    ASSERT_TRUE(again) << type_of(empty);
    // An agent's numbers have defaults; what is written is what it has.
    if (!std::holds_alternative<Created>(empty)) EXPECT_EQ(*again, empty) << type_of(empty);
  }
}

TEST(EventJson, AnEmptyAgentIsNotTheUsualOne) {
  const Event usual = Created{};
  EXPECT_EQ(read_event("session.created", "{}").value(), usual);
  const auto empty = read_event("session.created", R"({"agent":{}})");
  ASSERT_TRUE(empty);
  EXPECT_NE(*empty, usual);
  EXPECT_EQ(read_event("session.created", write_body(*empty)).value(), *empty);
}

TEST(EventJson, EachFieldOfAnotherKindIsRefused) {
  for (const Event& event : one_of_each()) {
    const Json whole = *parse_json(write_body(event));
    for (const auto& [key, value] : whole.items()) {
      Json broken = whole;
      const bool is_any = (key == "input" || key == "shown" || key == "content" || key == "wish" ||
                           key == "changes") &&
                          !std::holds_alternative<UserMessage>(event) &&
                          !std::holds_alternative<ToolEnded>(event) &&
                          !std::holds_alternative<ContextSummarised>(event);
      if (is_any) continue;  // holds whatever JSON there was
      broken[key] = value.is_array() ? Json(7) : Json::array({7});
      EXPECT_FALSE(read_event(type_of(event), dump_json(broken))) << type_of(event) << " " << key;
    }
  }
}

TEST(EventJson, HostileBodiesAreRefused) {
  for (const char* body : {"", "[]", "7", "null", "{", R"({"call":1,"call":2,"outcome":"done"})"})
    EXPECT_FALSE(read_event("tool.ended", body)) << body;
  EXPECT_FALSE(read_event("tool.began", "{}"));
  EXPECT_FALSE(read_event("", "{}"));
  for (const char* number : {"1e3", "1.5", "1000000000000001", "-1000000000000001",
                             "18446744073709551615", "\"1\"", "true"})
    EXPECT_FALSE(read_event("session.resumed", std::string(R"({"epoch":)") + number + "}"))
        << number;
  EXPECT_TRUE(read_event("session.resumed", R"({"epoch":1000000000000000})"));
  for (const char* word : {"\"endless\"", "1", "null", "\"\""})
    EXPECT_FALSE(read_event("turn.ended", std::string(R"({"reason":)") + word + "}")) << word;
  EXPECT_FALSE(read_event("turn.ended", "{}")) << "a reason is needed";
  EXPECT_FALSE(read_event("user.message", R"({"content":{"type":"text"}})")) << "no list of blocks";
  EXPECT_FALSE(read_event("agent.message", R"({"redacted":["a",1]})"));
  EXPECT_FALSE(read_event("user.answer", std::string("{\"text\":\"\xFF\"}"))) << "not UTF-8";
  EXPECT_FALSE(read_event("user.message", R"({"content":[)" + std::string(200, '[') + "]}"));
}

TEST(EventJson, OthersNeverSeeWhatIsNotForThem) {
  for (const Event& event : one_of_each()) {
    const std::string shown = write_public({.seq = 3, .at_ms = 4, .event = event});
    EXPECT_EQ(shown.find("secret"), std::string::npos) << shown;
    const Json json = *parse_json(shown);
    EXPECT_EQ(json.at("seq"), 3);
    EXPECT_EQ(json.at("at_unix_ms"), 4);
    EXPECT_EQ(json.at("type"), type_of(event));
    EXPECT_FALSE(json.contains("shown")) << shown;
    EXPECT_FALSE(json.contains("digest")) << shown;
  }
  const Json called = *parse_json(write_public({.seq = 1, .event = one_of_each()[7]}));
  EXPECT_EQ(called.at("input"), (Json{{"a", "x"}}));
}

TEST(EventJson, SumsOfUsageStayNumbersThatCanBeStored) {
  Usage sum{.input = kNumberMax};
  sum += {.input = kNumberMax, .output = 1};
  EXPECT_EQ(sum.input, kNumberMax);
  EXPECT_EQ(sum.output, 1);
}

}  // namespace
}  // namespace pons::session
