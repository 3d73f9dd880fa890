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
              ElementsAre("agent.tool_use", "agent.custom_tool_use", "span.model_request_end",
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
  EXPECT_EQ(last_["session.error"]["error"]["type"], "model_request_failed_error");
  EXPECT_THAT(add(session::TimerFired{}),
              ElementsAre("session.status_running", "span.model_request_start"));
  EXPECT_THAT(
      add(session::ModelFailed{
          .asked = state_.asked->seq, .trouble = session::Trouble::kLasting, .message = "gone"}),
      ElementsAre("span.model_request_end", "session.error", "session.status_idle"));
  EXPECT_EQ(last_["session.status_idle"]["stop_reason"]["type"], "retries_exhausted");
}

TEST_F(TranslatorTest, AnErrorSaysWhatTheModelsSideSaid) {
  say();
  const auto fail = [&](session::ModelFault fault, session::Trouble trouble) {
    add(session::ModelFailed{
        .asked = state_.asked->seq, .trouble = trouble, .fault = fault, .message = "m"});
    return last_["session.error"]["error"]["type"].get<std::string>();
  };
  using enum session::ModelFault;
  EXPECT_EQ(fail(kRateLimited, session::Trouble::kPassing), "model_rate_limited_error");
  for (int i = 0; i < 8; ++i) {
    add(session::TimerFired{});
    EXPECT_EQ(fail(kOverloaded, session::Trouble::kPassing), "model_overloaded_error");
  }
  add(session::TimerFired{});
  EXPECT_EQ(last_["session.error"]["error"]["type"], "model_overloaded_error");
  EXPECT_EQ(last_["session.error"]["error"]["retry_status"]["type"], "exhausted");
  EXPECT_EQ(last_["session.status_idle"]["stop_reason"]["type"], "retries_exhausted");
  say();
  EXPECT_EQ(fail(kOther, session::Trouble::kLasting), "model_request_failed_error");
}

TEST_F(TranslatorTest, WhoseMoneyIsSpentIsSaid) {
  say();
  add(session::ModelFailed{
      .asked = state_.asked->seq, .trouble = session::Trouble::kBudget, .message = "the project"});
  EXPECT_EQ(last_["session.error"]["error"]["type"], "billing_error");
  EXPECT_EQ(last_["session.status_idle"]["stop_reason"]["type"], "retries_exhausted");
  EXPECT_FALSE(last_.contains("session.usage")) << "the session has no budget that it could raise";

  session::AgentSpec agent = state_.agent;
  agent.budget_nano = 10;
  add(session::AgentChanged{.agent = agent});
  say();
  add(session::ModelAnswered{
      .asked = state_.asked->seq,
      .content = R"([{"type":"tool_use","id":"a","name":"bash","input":{}}])",
      .stop_reason = "tool_use",
      .usage = {.cost_nano = 11}});
  EXPECT_THAT(add(session::UserDecision{.call = state_.calls[0].seq, .message = "no"}),
              ElementsAre("user.tool_confirmation", "agent.tool_result", "session.status_running",
                          "session.thread_status_idle", "session.usage", "session.status_idle"));
  const Json& thread = last_["session.thread_status_idle"];
  EXPECT_EQ(thread["stop_reason"]["type"], "budget_reached");
  EXPECT_EQ(thread["session_thread_id"], write_thread_id(kSession));
  EXPECT_EQ(last_["session.status_idle"]["stop_reason"]["type"], "budget_reached");
}

TEST_F(TranslatorTest, WhatIsSaidWhileTheAgentWorksIsQueued) {
  say();
  EXPECT_TRUE(last_["user.message"]["processed_at"].is_string());
  say();
  EXPECT_TRUE(last_["user.message"]["processed_at"].is_null());
  answer(R"([{"type":"text","text":"hello"}])");
  answer(R"([{"type":"text","text":"hello again"}])");
  say();
  EXPECT_TRUE(last_["user.message"]["processed_at"].is_string());
}

TEST_F(TranslatorTest, AChangeSaysWhatHasChangedAndNothingElse) {
  const auto change = [&](const char* changes) {
    EXPECT_THAT(add(session::Updated{.number = 1, .changes = changes}),
                ElementsAre("session.updated"));
    Json fields = last_["session.updated"];
    for (const char* name : {"id", "type", "processed_at"}) fields.erase(name);
    return fields;
  };
  EXPECT_EQ(change(R"({"title":"t","metadata":{"a":"1"}})"),
            (Json{{"title", "t"}, {"metadata", {{"a", "1"}}}}));
  EXPECT_EQ(change(R"({"title":null,"metadata":{}})"), (Json{{"title", nullptr}}));
  EXPECT_EQ(change(R"({"budget_nano":0})"), (Json{{"budget", nullptr}}));
  const Json changed = change(R"({"budget_nano":10000000,"agent":{"id":"a"}})");
  EXPECT_EQ(changed["budget"]["max_list_cost"]["currency"], "USD");
  EXPECT_EQ(changed["agent"]["id"], "a");
  EXPECT_THAT(add(session::AgentChanged{}), IsEmpty()) << "which was said before it";
  EXPECT_THAT(add(session::AgentChanged{}), ElementsAre("session.updated"))
      << "in a log of an older program";
}

TEST_F(TranslatorTest, WhoDecidedThatACallAsksIsSaid) {
  session::AgentSpec agent = state_.agent;
  agent.tools = {"bash", "read", "glob"};
  agent.judged = {"bash", "read"};
  add(session::AgentChanged{.agent = agent});
  const auto use = [&](const std::string& tool) {
    say();
    answer(R"([{"type":"tool_use","id":"a","name":")" + tool + R"(","input":{}}])");
    Json shown = last_["agent.tool_use"];
    add(session::Interrupted{});
    return shown;
  };
  const Json bash = use("bash");
  EXPECT_EQ(bash["evaluated_permission"], "ask");
  EXPECT_EQ(bash["evaluation"]["type"], "auto");
  EXPECT_EQ(bash["evaluation"]["evaluated_permission"],
            (Json{{"type", "ask"}, {"reason_code", "indeterminate"}}));
  const Json read = use("read");
  EXPECT_EQ(read["evaluated_permission"], "allow");
  EXPECT_EQ(read["evaluation"],
            (Json{{"type", "auto"}, {"evaluated_permission", {{"type", "allow"}}}}));
  EXPECT_EQ(use("glob")["evaluation"], (Json{{"type", "always_allow"}}));
  const Json unknown = use("nothing");
  EXPECT_EQ(unknown["evaluated_permission"], "deny");
  EXPECT_FALSE(unknown.contains("evaluation")) << "no policy was looked at";
}

TEST_F(TranslatorTest, AnEndIsSaidOnceAndIsTheLast) {
  say();
  answer(R"([{"type":"text","text":"hello"}])");
  EXPECT_FALSE(translator_.is_over());
  EXPECT_THAT(add(session::Archived{}), ElementsAre("session.status_terminated"));
  EXPECT_TRUE(translator_.is_over());
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

TEST_F(TranslatorTest, ThatTheModelThinksIsShownOnceUnderTheIdOfItsThinking) {
  EXPECT_THAT(translator_.take_thinking(3), IsEmpty());
  say();
  const auto start = translator_.take_thinking(state_.asked->seq);
  ASSERT_EQ(start.size(), 1U);
  EXPECT_EQ(start[0].type, "event_start");
  EXPECT_THAT(translator_.take_thinking(state_.asked->seq), IsEmpty());
  const Json preview = parse_json(start[0].text).value()["event"];
  EXPECT_EQ(preview["type"], "agent.thinking");
  answer(R"([{"type":"thinking","thinking":"t"},{"type":"text","text":"hello"}])");
  EXPECT_EQ(last_["agent.thinking"]["id"], preview["id"]);
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
      ElementsAre("session.thread_created", "agent.thread_message_sent", "span.model_request_end"));
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

  EXPECT_THAT(
      answer(R"([{"type":"tool_use","id":"u","name":"spawn_agent","input":)" + task + "}]"),
      ElementsAre("session.thread_created", "agent.thread_message_sent", "span.model_request_end"));
  add(session::ToolEnded{.call = state_.calls[0].seq, .text = "seen"});
  EXPECT_THAT(add(session::ThreadArchived{.call = call}),
              ElementsAre("session.thread_status_terminated"));
  EXPECT_EQ(last_["session.thread_status_terminated"]["session_thread_id"], thread);
  EXPECT_EQ(last_["session.thread_status_terminated"]["agent_name"], "helper");
  answer(R"([{"type":"text","text":"all done"}])");
  EXPECT_THAT(add(session::Archived{}),
              ElementsAre("session.thread_status_terminated", "session.status_terminated"));
  EXPECT_NE(last_["session.thread_status_terminated"]["session_thread_id"], thread);
}

TEST_F(TranslatorTest, AToolOfAServerThatAThreadAsksForIsShownAsItsServersTool) {
  session::AgentSpec helper{.name = "helper", .model = "m"};
  helper.servers = {
      {.name = "far",
       .url = "https://far.example/mcp",
       .toolset = R"({"default_config":{"permission_policy":{"type":"auto"}},"configs":[]})"}};
  session::AgentSpec lead{.model = "m",
                          .tools = {std::string(session::kSpawnAgent)},
                          .has_threads = true,
                          .members = session::Members({helper})};
  add(session::AgentChanged{.agent = lead});
  say();
  answer(
      R"([{"type":"tool_use","id":"t","name":"spawn_agent","input":{"task":"t","agent":"helper"}}])");
  EXPECT_THAT(
      add(session::ThreadChanged{
          .call = state_.calls[0].seq,
          .seen = 5,
          .status = session::ThreadStatus::kWaits,
          .waits = {5},
          .posted =
              R"([{"seq":5,"type":"tool.called","name":"a.b","server":"far","input":{"x":1},"waits_for":"decision"}])"}),
      ElementsAre("agent.mcp_tool_use", "session.thread_status_idle", "session.status_idle"));
  const Json& use = last_["agent.mcp_tool_use"];
  EXPECT_EQ(use["mcp_server_name"], "far");
  EXPECT_EQ(use["name"], "a.b");
  EXPECT_EQ(use["input"], (Json{{"x", 1}}));
  EXPECT_EQ(use["evaluated_permission"], "ask");
  EXPECT_EQ(use["evaluation"]["type"], "auto");
}

TEST(ThreadsTranslated, TheEndOfAThreadIsItsOwn) {
  Translator translator("ses_child", {.primary = kSession, .agent = "helper"});
  (void)translator.take({.seq = 1, .at_ms = 1, .event = session::Created{}});
  const auto end = translator.take({.seq = 2, .at_ms = 2, .event = session::Archived{}});
  ASSERT_EQ(end.size(), 1U);
  EXPECT_EQ(end[0].type, "session.thread_status_terminated");
  EXPECT_EQ(parse_json(end[0].text).value()["agent_name"], "helper");
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

TEST_F(TranslatorTest, AWishOfASandboxIsAnsweredAsAToolIs) {
  say();
  answer(R"([{"type":"text","text":"hello"}])");
  EXPECT_THAT(
      add(session::AccessAsked{.request = "acc_1",
                               .host = "a.example",
                               .port = 443,
                               .wish = R"({"host":"a.example","port":443,"reason":"why"})"}),
      ElementsAre("agent.tool_use", "session.status_idle"));
  const Json use = last_["agent.tool_use"];
  EXPECT_EQ(use["name"], "request_network_access");
  EXPECT_EQ(use["evaluated_permission"], "ask");
  EXPECT_EQ(use["input"]["host"], "a.example");
  EXPECT_EQ(use["input"]["reason"], "why");
  EXPECT_EQ(last_["session.status_idle"]["stop_reason"]["type"], "requires_action");
  EXPECT_EQ(last_["session.status_idle"]["stop_reason"]["event_ids"], Json::array({use["id"]}));
  EXPECT_THAT(add(session::UserDecision{.call = state_.access.at(0).seq, .message = "no"}),
              ElementsAre("user.tool_confirmation", "session.status_running"));
  EXPECT_EQ(last_["user.tool_confirmation"]["tool_use_id"], use["id"]);
  EXPECT_THAT(add(session::AccessEnded{
                  .request = "acc_1", .outcome = session::AccessOutcome::kDenied, .message = "no"}),
              ElementsAre("agent.tool_result", "span.model_request_start"));
  EXPECT_EQ(last_["agent.tool_result"]["tool_use_id"], use["id"]);
  EXPECT_EQ(last_["agent.tool_result"]["is_error"], true);
  EXPECT_EQ(last_["agent.tool_result"]["content"][0]["text"], "denied: no");
}

}  // namespace
}  // namespace pons::managed
