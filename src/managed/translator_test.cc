#include "translator.h"

#include <map>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "pons/session/call_id.h"
#include "pons/session/decide.h"
#include "pons/session/fold.h"
#include "pons/session/tools.h"
#include "thread_id.h"

namespace pons::managed {
namespace {

using session::Seq;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kSession = "sesn_1";

// A log as the session itself would write it, and what becomes of it.
class TranslatorTest : public testing::Test {
 protected:
  explicit TranslatorTest() {
    session::AgentSpec agent{.model = "m", .tools = {"bash"}, .asks = {"bash"}};
    agent.custom.push_back({.name = "own", .definition = R"({"name":"own"})"});
    add(session::Created{.agent = agent});
  }

  // The types of what comes of it, and of what is decided because of it.
  std::vector<std::string> add(session::Event event) {
    std::vector<session::StoredEvent> log = {
        {.seq = state_.head + 1, .at_ms = 1'000, .event = std::move(event)}};
    session::fold(state_, log.back());
    session::settle(state_, 1'000, log);
    std::vector<std::string> types;
    for (const session::StoredEvent& stored : log)
      for (PublicEvent& made : translator_.take(stored)) {
        types.push_back(made.type);
        EXPECT_TRUE(ids_.emplace(made.id, made.type).second) << made.text;
        last_[made.type] = parse_json(made.text).value();
      }
    return types;
  }
  std::vector<std::string> say() {
    return add(session::UserMessage{.content = R"([{"type":"text","text":"hi"}])"});
  }
  std::vector<std::string> answer(std::string content) {
    return add(session::ModelAnswered{
        .asked = state_.asked->seq, .content = std::move(content), .stop_reason = "end_turn"});
  }

  session::State state_;
  Translator translator_{kSession};
  std::map<std::string, std::string> ids_;
  std::map<std::string, Json> last_;
};

TEST_F(TranslatorTest, ATurnIsEchoedBegunAnsweredAndEnded) {
  EXPECT_THAT(say(),
              ElementsAre("user.message", "session.status_running", "span.model_request_start"));
  EXPECT_THAT(answer(R"([{"type":"thinking","thinking":"t"},{"type":"text","text":"hello"}])"),
              ElementsAre("agent.thinking", "agent.message", "span.model_request_end",
                          "session.status_idle"));
  EXPECT_EQ(last_["agent.message"]["content"][0]["text"], "hello");
  EXPECT_EQ(last_["agent.message"]["processed_at"], "1970-01-01T00:00:01Z");
  EXPECT_FALSE(last_["agent.thinking"].contains("content"));
  EXPECT_EQ(last_["session.status_idle"]["stop_reason"]["type"], "end_turn");
  EXPECT_TRUE(last_["session.status_idle"]["stop_details"].is_null());
}

TEST_F(TranslatorTest, WhatWaitsForAPersonIsNamedOnceAllOfItIsKnown) {
  say();
  EXPECT_THAT(answer(R"([{"type":"tool_use","id":"a","name":"bash","input":{"command":"ls"}},
                         {"type":"tool_use","id":"b","name":"own","input":{}}])"),
              ElementsAre("span.model_request_end", "agent.tool_use", "agent.custom_tool_use",
                          "session.status_idle"));
  const Json idle = last_["session.status_idle"];
  EXPECT_EQ(idle["stop_reason"]["type"], "requires_action");
  EXPECT_EQ(idle["stop_reason"]["event_ids"],
            Json::array({last_["agent.tool_use"]["id"], last_["agent.custom_tool_use"]["id"]}));
  EXPECT_EQ(last_["agent.tool_use"]["evaluated_permission"], "ask");

  const Seq bash = state_.calls[0].seq;
  const Seq own = state_.calls[1].seq;
  EXPECT_THAT(add(session::UserDecision{.call = bash, .allowed = false, .message = "no"}),
              ElementsAre("user.tool_confirmation", "agent.tool_result", "session.status_idle"));
  EXPECT_EQ(last_["session.status_idle"]["stop_reason"]["event_ids"].size(), 1U);
  EXPECT_THAT(
      add(session::UserToolResult{.call = own, .content = "[]"}),
      ElementsAre("user.custom_tool_result", "session.status_running", "span.model_request_start"));
}

TEST_F(TranslatorTest, SecretsAreShownAsTheLogShowsThem) {
  say();
  add(session::ModelAnswered{.asked = state_.asked->seq,
                             .content = R"([{"type":"text","text":"s3cret"},
                                 {"type":"tool_use","id":"a","name":"bash","input":{"command":"s3cret"}}])",
                             .shown = R"([{"type":"text","text":"xxx"},
                                 {"type":"tool_use","id":"a","name":"bash","input":{"command":"xxx"}}])",
                             .redacted = {"KEY"},
                             .stop_reason = "tool_use"});
  EXPECT_EQ(last_["agent.message"]["content"][0]["text"], "xxx");
  EXPECT_EQ(last_["agent.tool_use"]["input"]["command"], "xxx");
  add(session::UserDecision{.call = state_.calls[0].seq, .allowed = true});
  add(session::ToolEnded{
      .call = state_.calls[0].seq, .text = "s3cret", .shown = "yyy", .redacted = {"KEY"}});
  EXPECT_EQ(last_["agent.tool_result"]["content"][0]["text"], "yyy");
}

TEST(ServersTranslated, TheirToolsAndTroublesAreShownAsTheApiHasThem) {
  session::State state;
  Translator translator(kSession);
  std::vector<Json> shown;
  const auto add = [&](session::Event event) {
    std::vector<session::StoredEvent> log = {
        {.seq = state.head + 1, .at_ms = 1'000, .event = std::move(event)}};
    session::fold(state, log.back());
    session::settle(state, 1'000, log);
    for (const session::StoredEvent& stored : log)
      for (PublicEvent& made : translator.take(stored))
        shown.push_back(parse_json(made.text).value());
  };
  const auto last = [&](std::string_view type) {
    Json found;
    for (const Json& event : shown)
      if (event["type"] == type) found = event;
    return found;
  };
  session::AgentSpec agent{.model = "m"};
  agent.servers = {{.name = "far", .url = "https://far.example/mcp"}};
  add(session::Created{.agent = agent});
  add(session::UserMessage{.content = R"([{"type":"text","text":"hi"}])"});
  add(session::ServerTrouble{.server = "other", .message = "it is not there"});
  EXPECT_EQ(last("session.error")["error"]["type"], "mcp_connection_failed_error");
  EXPECT_EQ(last("session.error")["error"]["mcp_server_name"], "other");
  add(session::ServerTrouble{
      .server = "other", .fault = session::ServerFault::kAuthentication, .message = "401"});
  EXPECT_EQ(last("session.error")["error"]["type"], "mcp_authentication_failed_error");
  add(session::Equipped{
      .asked = *state.equipping,
      .tools = {{.server = "far", .name = "a.b", .alias = "far__a_b", .asks = true}}});
  add(session::ModelAnswered{
      .asked = state.asked->seq,
      .content = R"([{"type":"tool_use","id":"a","name":"far__a_b","input":{"x":1}},
                     {"type":"tool_use","id":"b","name":"far__a_b","input":{}}])",
      .stop_reason = "tool_use"});
  const Json use = last("agent.mcp_tool_use");
  EXPECT_EQ(use["mcp_server_name"], "far");
  EXPECT_EQ(use["name"], "a.b");
  EXPECT_EQ(use["evaluated_permission"], "ask");
  EXPECT_EQ(last("session.status_idle")["stop_reason"]["type"], "requires_action");
  add(session::UserDecision{.call = state.calls[0].seq, .allowed = true});
  add(session::ToolEnded{.call = state.calls[0].seq, .text = "3"});
  EXPECT_EQ(last("agent.mcp_tool_result")["content"][0]["text"], "3");
  add(session::UserDecision{.call = state.calls[1].seq, .allowed = false});
  EXPECT_EQ(last("agent.mcp_tool_result")["mcp_tool_use_id"], use["id"]);
  EXPECT_EQ(last("agent.mcp_tool_result")["is_error"], true);
}

TEST_F(TranslatorTest, AModelThatFailsIsAnErrorAndATryLater) {
  say();
  EXPECT_THAT(
      add(session::ModelFailed{.asked = state_.asked->seq, .message = "busy", .wait_ms = 5}),
      ElementsAre("span.model_request_end", "session.error", "session.status_rescheduled"));
  EXPECT_EQ(last_["session.error"]["error"]["retry_status"]["type"], "retrying");
  EXPECT_THAT(add(session::TimerFired{}),
              ElementsAre("session.status_running", "span.model_request_start"));
  EXPECT_THAT(
      add(session::ModelFailed{
          .asked = state_.asked->seq, .trouble = session::Trouble::kLasting, .message = "gone"}),
      ElementsAre("span.model_request_end", "session.error", "session.status_idle"));
  EXPECT_EQ(last_["session.status_idle"]["stop_reason"]["type"], "retries_exhausted");
}

TEST_F(TranslatorTest, PiecesAreABeginningOfTheAnswerOrNotShown) {
  EXPECT_THAT(translator_.take_delta(3, "too early"), IsEmpty());
  say();
  const Seq asked = state_.asked->seq;
  EXPECT_EQ(asked, 3);
  EXPECT_THAT(translator_.take_delta(asked, "behind a gap"), IsEmpty())
      << "what came before it was not shown";
  answer(R"([{"type":"text","text":"a"}])");
  say();
  const auto first = translator_.take_delta(state_.asked->seq, "Hel");
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].type, "event_start");
  EXPECT_EQ(translator_.take_delta(state_.asked->seq, "lo").size(), 1U);
  const Json start = parse_json(first[0].text).value();
  answer(R"([{"type":"text","text":"Hello"}])");
  EXPECT_EQ(last_["agent.message"]["id"], start["event"]["id"]);
}

TEST(EventIds, AreOfOneSessionAndReadBack) {
  const EventId id{.seq = 42, .part = Part::kMessage};
  const std::string text = write_event_id(kSession, id);
  EXPECT_EQ(parse_event_id(kSession, text), id);
  EXPECT_EQ(parse_event_id("sesn_2", text), std::nullopt);
  for (const char* wrong : {"", "sevt_", "sevt_zzzzzzzzzz00000000421"})
    EXPECT_EQ(parse_event_id(kSession, wrong), std::nullopt);
  EXPECT_EQ(parse_event_id(kSession, text + "0"), std::nullopt);
  EXPECT_EQ(parse_event_id(kSession, write_event_id(kSession, {.seq = 0})), std::nullopt);
}

TEST_F(TranslatorTest, WhatAThreadAsksIsShownUnderItsOwnIdWithItsThread) {
  session::AgentSpec lead{.model = "m",
                          .tools = {std::string(session::kSpawnAgent)},
                          .has_threads = true,
                          .members = session::Members({{.name = "helper", .model = "m"}})};
  add(session::AgentChanged{.agent = lead});
  say();
  const std::string task = R"({"task":"look","agent":"helper"})";
  EXPECT_THAT(
      answer(R"([{"type":"tool_use","id":"t","name":"spawn_agent","input":)" + task + "}]"),
      ElementsAre("span.model_request_end", "session.thread_created", "agent.thread_message_sent"));
  const session::Seq call = state_.calls[0].seq;
  const std::string child = session::child_session_of(kSession, call);
  const std::string thread = last_["session.thread_created"]["session_thread_id"];
  EXPECT_EQ(thread, write_thread_id(child));
  EXPECT_EQ(parse_thread_id(kSession, thread), child);

  const auto changed = [&](session::Seq seen, session::ThreadStatus status,
                           std::vector<session::Seq> waits, std::string posted) {
    return add(session::ThreadChanged{.call = call,
                                      .seen = seen,
                                      .status = status,
                                      .waits = std::move(waits),
                                      .posted = std::move(posted)});
  };
  EXPECT_THAT(changed(2, session::ThreadStatus::kRunning, {}, ""),
              ElementsAre("session.thread_status_running"));
  EXPECT_THAT(
      changed(
          5, session::ThreadStatus::kWaits, {5},
          R"([{"seq":5,"type":"tool.called","name":"bash","input":{},"waits_for":"decision"}])"),
      ElementsAre("agent.tool_use", "session.thread_status_idle", "session.status_idle"));
  const std::string asked = write_event_id(child, {.seq = 5});
  EXPECT_EQ(last_["agent.tool_use"]["id"], asked);
  EXPECT_EQ(last_["agent.tool_use"]["session_thread_id"], thread);
  EXPECT_EQ(last_["session.status_idle"]["stop_reason"]["event_ids"], Json::array({asked}));
  EXPECT_THAT(changed(6, session::ThreadStatus::kRunning, {},
                      R"([{"seq":6,"type":"user.decision","call":5,"allowed":true}])"),
              ElementsAre("user.tool_confirmation", "session.thread_status_running",
                          "session.status_running"));
  EXPECT_EQ(last_["user.tool_confirmation"]["tool_use_id"], asked);
  EXPECT_THAT(changed(9, session::ThreadStatus::kEnded, {}, ""),
              ElementsAre("session.thread_status_idle"));
  EXPECT_THAT(add(session::ToolEnded{.call = call, .text = "seen"}),
              ElementsAre("agent.thread_message_received", "span.model_request_start"));
}

TEST_F(TranslatorTest, AJudgeThatIsAskedTwiceIsOneEvaluation) {
  add(session::OutcomeDefined{
      .id = "outc_1", .description = "d", .rubric = "r", .iterations_max = 1});
  EXPECT_THAT(
      answer(R"([{"type":"text","text":"done"}])"),
      ElementsAre("agent.message", "span.model_request_end", "span.outcome_evaluation_start"));
  EXPECT_THAT(add(session::ModelFailed{.asked = state_.asked->seq, .message = "busy"}),
              ElementsAre("session.error", "session.status_rescheduled"));
  EXPECT_THAT(add(session::TimerFired{}),
              ElementsAre("session.status_running", "span.outcome_evaluation_ongoing"));
  EXPECT_THAT(add(session::OutcomeGraded{.asked = state_.asked->seq,
                                         .verdict = session::Verdict::kNeedsRevision,
                                         .explanation = "no"}),
              ElementsAre("span.outcome_evaluation_end", "span.model_request_start"));
  const Json& end = last_["span.outcome_evaluation_end"];
  EXPECT_EQ(end["result"], "max_iterations_reached");
  EXPECT_EQ(end["outcome_evaluation_start_id"], last_["span.outcome_evaluation_start"]["id"]);
}

}  // namespace
}  // namespace pons::managed
