#include "pons/session/sessions.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "driver.h"
#include "pons/session/call_id.h"
#include "pons/session/replay.h"
#include "pons/session/tool_text.h"
#include "sessions_fixture.h"

namespace pons::session {
namespace {

using testing::HasSubstr;

TEST_F(SessionsTest, ATurnWithOneSandboxAndOneCommandTakesAtMostSixCommits) {
  model_.call("sandbox_provision", kTask);
  model_.call("sandbox_execute", kRun);
  model_.text("done");
  begin();
  EXPECT_EQ(stored().summary.status, Status::kIdle);
  EXPECT_EQ(stored().summary.ended, "end_turn");
  EXPECT_LE(stored().commits, 6);
  EXPECT_EQ(all<Said>().at(0).text, "done");
  EXPECT_TRUE(boxes_.alive.empty()) << "the sandbox ends with the turn";
}

TEST_F(SessionsTest, AnAgentOfAnAgentHasNoToolThatSomebodyWouldHaveToAllow) {
  AgentSpec agent{.model = "m", .tools = {"bash", "read", "spawn_agent"}, .asks = {"bash"}};
  agent.custom.push_back({.name = "own", .definition = R"({"name":"own"})"});
  model_.call("spawn_agent", R"({"task":"t"})");
  model_.text("the child's");
  model_.text("done");
  begin(agent);
  for (const auto& [id, session] : tables_.sessions) {
    if (id == "s") continue;
    const AgentSpec child = all<Created>(id).at(0).agent;
    EXPECT_THAT(child.tools, testing::ElementsAre("read", "spawn_agent"));
    EXPECT_TRUE(child.asks.empty());
    EXPECT_TRUE(child.custom.empty());
  }
  EXPECT_EQ(tables_.sessions.size(), 2U);
}

// Whoever follows the session does not see its question.
TEST_F(SessionsTest, AnAgentOfAnAgentAsksNobody) {
  for (const bool is_named : {false, true}) {
    AgentSpec agent{.model = "m"};
    if (is_named) agent.tools = {"ask_human", "spawn_agent"};
    model_.call("spawn_agent", R"({"task":"t"})");
    model_.call("ask_human", R"({"question":"which?"})");
    model_.text("the child's");
    model_.text("done");
    const std::string id = is_named ? "named" : "usual";
    ASSERT_TRUE(run(sessions_.create(
        {.id = id, .project = "p", .agent = agent, .message = message_of("hi", "")})));
    pass(std::chrono::seconds(10));
    EXPECT_EQ(all<Said>(id).back().text, "done");
    const std::string child = child_session_of(id, all<ToolCalled>(id).at(0).asked + 2);
    EXPECT_EQ(all<ToolEnded>(child).at(0).outcome, ToolOutcome::kRefused);
    EXPECT_FALSE(is_allowed(all<Created>(child).at(0).agent, kAskHuman));
    EXPECT_TRUE(is_allowed(all<Created>(child).at(0).agent, kSpawnAgent));
  }
}

// What a process wrote down before the clock jumped is no reason for the next one to wait a day.
TEST_F(SessionsTest, HoweverTheClockJumpsTheNextTryComesSoon) {
  Story story;
  story.now_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
          .count();
  story.say("hi");
  story.fail(Trouble::kPassing, 60'000);
  ASSERT_EQ(status_of(story.state), Status::kRescheduled);
  clock_.jump(-std::chrono::hours(24));
  take_up(story, std::chrono::minutes(15));
  EXPECT_EQ(stored().summary.ended, "end_turn");
}

TEST_F(SessionsTest, ASandboxKeepsTheLastEightCheckpointsThatTheSessionKnows) {
  const auto run_several = [&](int count) {
    std::string calls;
    for (int i = 0; i < count; ++i)
      calls +=
          fmt::format(R"({}{{"type":"tool_use","id":"t{}","name":"sandbox_execute","input":{}}})",
                      i == 0 ? "" : ",", i, kRun);
    model_.script.emplace_back(Answer{.content = "[" + calls + "]", .stop_reason = "tool_use"});
  };
  model_.call("sandbox_provision", R"({"task_description":"x","keep":true})");
  for (const int count : {1, 1, 1, 1, 1, 1, 3, 1, 4, 1}) run_several(count);
  model_.text("done");
  begin({.model = "m", .checkpoints = true});
  EXPECT_EQ(stored().summary.ended, "end_turn");
  const State state = fold(State{}, stored().events);
  ASSERT_EQ(state.sandboxes.size(), 1U);
  const auto& [id, sandbox] = *state.sandboxes.begin();
  EXPECT_EQ(sandbox.checkpoints.size(), kCheckpointsMax);
  EXPECT_EQ(sandbox.checkpoints.back(), fmt::format("after-{}", all<ToolEnded>().back().call));
  EXPECT_THAT(boxes_.checkpoints.at(id), testing::UnorderedElementsAreArray(sandbox.checkpoints))
      << "what is forgotten here is given up there, and nothing else";
}

TEST_F(SessionsTest, WhatTheStoreWillNeverTakeIsNotTriedForEver) {
  for (const ErrorCode code : {ErrorCode::kLimit, ErrorCode::kInvalid}) {
    model_.script.clear();
    model_.next = 0;
    model_.text("too much");
    ASSERT_TRUE(run(sessions_.create({.id = code == ErrorCode::kLimit ? "a" : "b",
                                      .project = "p",
                                      .agent = {.model = "m"},
                                      .message = message_of("hi", "")})));
    log_.refusal = make_error(code, "store", "too large");
    log_.refusals = 1;
    pass(std::chrono::seconds(30));
    const std::string id = tables_.sessions.begin()->first;
    EXPECT_EQ(stored(id).summary.ended, "model_failed");
    EXPECT_THAT(all<ModelFailed>(id).at(0).message, HasSubstr("cannot be stored"));
  }
}

TEST_F(SessionsTest, AToolResultTheStoreWillNeverTakeIsToldToTheModel) {
  model_.call("sandbox_provision", kTask);
  model_.call("sandbox_execute", kRun);
  model_.text("done");
  ASSERT_TRUE(run(sessions_.create(
      {.id = "s", .project = "p", .agent = {.model = "m"}, .message = message_of("hi", "")})));
  while (boxes_.runs.empty()) pass(std::chrono::milliseconds(1));
  log_.refusal = make_error(ErrorCode::kLimit, "store", "too large");
  log_.refusals = 1;
  pass(std::chrono::seconds(30));
  EXPECT_EQ(stored().summary.ended, "end_turn");
  EXPECT_THAT(all<ToolEnded>().at(1).text, HasSubstr("cannot be stored"));
  EXPECT_EQ(boxes_.runs.begin()->second, 1);
}

TEST_F(SessionsTest, WhatPeopleSayIsRefusedWhenTheStoreIsAndNothingHasHappened) {
  model_.text("one");
  model_.text("two");
  begin();
  log_.refusal = make_error(ErrorCode::kUnavailable, "store", "the disk is full");
  log_.refusals = 3;  // it is tried so often
  const auto refused = run(sessions_.add("s", message_of("more", "")));
  EXPECT_FALSE(refused);
  EXPECT_EQ(stored().summary.status, Status::kIdle);
  const auto added = run(sessions_.add("s", message_of("more", "key")));
  ASSERT_TRUE(added);
  EXPECT_EQ(run(sessions_.add("s", message_of("more", "key"))).value(), *added);
  pass(std::chrono::seconds(5));
  EXPECT_EQ(all<UserMessage>().size(), 2U);
}

TEST_F(SessionsTest, AnInterruptReachesAModelThatSaysNothing) {
  model_.is_silent = true;
  begin();
  EXPECT_EQ(stored().summary.status, Status::kRunning);
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(1));
  EXPECT_EQ(stored().summary.ended, "interrupted");
}

TEST_F(SessionsTest, AnInterruptEndsTheCommandAndTheSandbox) {
  model_.call("sandbox_provision", kTask);
  model_.call("sandbox_execute", kRun);
  hands_.hang_one_in = 1;
  begin();
  EXPECT_EQ(stored().summary.status, Status::kRunning);
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(1));
  EXPECT_EQ(all<ToolEnded>().back().outcome, ToolOutcome::kInterrupted);
  EXPECT_TRUE(boxes_.alive.empty());
}

TEST_F(SessionsTest, AnAnswerOfNobodyWhoWasAskedIsRefused) {
  model_.call("ask_human", R"({"question":"which?"})");
  model_.text("thanks");
  begin();
  EXPECT_EQ(stored().summary.status, Status::kWaitsForPerson);
  EXPECT_EQ(run(sessions_.add("s", UserAnswer{.call = 1, .text = "x"})).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(run(sessions_.archive("s")).error().code, ErrorCode::kConflict)
      << "it waits for someone";
  pass(std::chrono::minutes(2));
  EXPECT_TRUE(run(sessions_.add(
      "s", UserAnswer{.call = static_cast<Seq>(stored().events.size()), .text = "this"})));
  pass(std::chrono::seconds(5));
  EXPECT_EQ(stored().summary.ended, "end_turn");
  EXPECT_TRUE(model_.forgotten.empty());
  EXPECT_TRUE(run(sessions_.archive("s")));
  EXPECT_EQ(model_.forgotten, std::vector<std::string>{"s"});
  EXPECT_EQ(run(sessions_.add("s", Interrupted{})).error().code, ErrorCode::kInvalid);
}

TEST_F(SessionsTest, WhoeverFollowsASessionSeesItsEndAndNothingBehindIt) {
  model_.text("hello");
  begin();
  const auto follower =
      sessions_.follow("s", {.after = stored().summary.head, .with_deltas = false});
  const auto next = [&] { return run(follower->next(loop_->now() + std::chrono::seconds(15))); };
  ASSERT_TRUE(run(sessions_.archive("s")));
  std::vector<StoredEvent> seen;
  while (seen.empty()) seen = next().value().events;
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Archived>(seen[0].event));
  EXPECT_EQ(seen, std::vector<StoredEvent>{stored().events.back()});
  EXPECT_EQ(stored().summary.head, seen[0].seq);
  EXPECT_FALSE(run(sessions_.add("s", message_of("more", ""))));
  EXPECT_EQ(stored().events.back(), seen[0]);

  const auto copy = run(sessions_.fork("s", 0, "p")).value();
  EXPECT_TRUE(all<Archived>(copy.id).empty()) << "the other one goes on";
  EXPECT_EQ(run(sessions_.fork("s", seen[0].seq, "p")).value().head, copy.head);
}

TEST_F(SessionsTest, WhoeverFollowsASessionThatIsDeletedIsTold) {
  model_.text("hello");
  begin();
  const auto follower =
      sessions_.follow("s", {.after = stored().summary.head, .with_deltas = false});
  ASSERT_TRUE(run(sessions_.archive("s", Farewell::kUnsaid)));
  EXPECT_TRUE(all<Archived>().empty());
  tables_.sessions.erase("s");
  sessions_.forget("s");
  const auto next = run(follower->next(kNever));
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, ErrorCode::kNotFound);
}

TEST_F(SessionsTest, OfTwoChangesWithOneNumberTheSecondIsRefusedWithAllThatGoesWithIt) {
  model_.text("hello");
  begin();
  const auto change = [&](std::int64_t number, const std::string& model) {
    std::vector<Event> both;
    both.emplace_back(Updated{.number = number, .changes = "{}"});
    both.emplace_back(AgentChanged{.agent = {.model = model}});
    return run(sessions_.add_all("s", both));
  };
  EXPECT_TRUE(change(1, "first"));
  EXPECT_EQ(change(1, "second").error().code, ErrorCode::kConflict);
  EXPECT_EQ(all<AgentChanged>().size(), 1U);
  EXPECT_TRUE(change(2, "third"));
  EXPECT_EQ(all<AgentChanged>().back().agent.model, "third");
}

TEST_F(SessionsTest, ThatAThreadIsPutAwayIsSaidOnce) {
  model_.text("hello");
  begin();
  const Seq first = run(sessions_.add("s", ThreadArchived{.call = 4})).value();
  EXPECT_EQ(run(sessions_.add("s", ThreadArchived{.call = 4})).value(), first);
  EXPECT_NE(run(sessions_.add("s", ThreadArchived{.call = 5})).value(), first);
  EXPECT_EQ(all<ThreadArchived>().size(), 2U);
}

TEST_F(SessionsTest, AnEmptySummaryNeverTakesThePlaceOfTheConversation) {
  model_.call("rm_rf", "{}", {.input = 90});
  model_.text(" ");
  model_.text("all of it");
  model_.text("done");
  begin({.model = "m", .context_tokens = 100});
  EXPECT_EQ(stored().summary.ended, "end_turn");
  ASSERT_EQ(all<ContextSummarised>().size(), 1U);
  EXPECT_EQ(all<ContextSummarised>()[0].summary, "all of it");
  EXPECT_THAT(all<ModelFailed>().at(0).message, HasSubstr("empty"));
}

TEST_F(SessionsTest, NothingWithASecretIsShown) {
  const std::string secret(SimulatedBoundary::kSecret);
  model_.call("sandbox_provision", kTask);
  model_.call("sandbox_execute", R"({"command":")" + secret + "\"}", {.input = 90});
  model_.text("in short " + secret);
  model_.text("it is " + secret);
  begin({.model = "m", .context_tokens = 100});
  EXPECT_EQ(stored().summary.ended, "end_turn");
  EXPECT_EQ(all<ContextSummarised>().size(), 1U);
  for (const StoredEvent& event : stored().events)
    EXPECT_EQ(write_public(event).find(secret), std::string::npos) << write_public(event);
  EXPECT_THAT(model_.requests.at(2), HasSubstr(secret)) << "the agent itself may see it";
}

TEST_F(SessionsTest, AgentsOfOneAnswerTogetherGetNoMoreThanThereIs) {
  model_.script.emplace_back(Answer{
      .content =
          R"([{"type":"tool_use","id":"a","name":"spawn_agent","input":{"task":"t","budget_percent":60}},)"
          R"({"type":"tool_use","id":"b","name":"spawn_agent","input":{"task":"t","budget_percent":50}}])",
      .stop_reason = "tool_use",
      .usage = {.output = 200}});
  for (int i = 0; i < 3; ++i) model_.text(std::string(30'000, 'x'));
  begin({.model = "m", .budget_tokens = 1'000});
  ASSERT_EQ(tables_.sessions.size(), 3U);
  std::int64_t sum = 0;
  for (const auto& [id, one] : tables_.sessions) {
    if (id == "s") continue;
    EXPECT_EQ(one.summary.parent, "s");
    EXPECT_EQ(all<Created>(id).at(0).agent.depth, 1);
    sum += all<Created>(id).at(0).agent.budget_tokens;
  }
  EXPECT_LE(sum, 800);
  for (const ToolEnded& ended : all<ToolEnded>()) {
    EXPECT_LT(ended.text.size(), 25'000U) << "a long answer is shortened like any result";
    EXPECT_EQ(tables_.blobs.at(ended.full).size(), 30'000U);
  }
}

TEST_F(SessionsTest, AnInterruptReachesAgentsOfAgents) {
  model_.call("spawn_agent", R"({"task":"t"})");
  ASSERT_TRUE(run(sessions_.create(
      {.id = "s", .project = "p", .agent = {.model = "m"}, .message = message_of("hi", "")})));
  while (model_.requests.size() < 1) pass(std::chrono::milliseconds(1));
  model_.is_silent = true;
  pass(std::chrono::seconds(5));
  ASSERT_EQ(tables_.sessions.size(), 2U);
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(5));
  for (const auto& [id, one] : tables_.sessions) EXPECT_EQ(one.summary.ended, "interrupted") << id;
}

TEST_F(SessionsTest, WhatAnInterruptedAgentHasUsedIsCountedOnce) {
  model_.call("spawn_agent", R"({"task":"t"})", {.input = 100});
  model_.call("sandbox_provision", kTask, {.input = 30});
  hands_.hang_one_in = 1;
  model_.call("sandbox_execute", kRun, {.input = 40});
  begin({.model = "m", .budget_tokens = 1'000});
  ASSERT_EQ(tables_.sessions.size(), 2U);
  EXPECT_EQ(stored().summary.usage.all_tokens(), 100);
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(10));
  EXPECT_EQ(stored().summary.usage.all_tokens(), 170);
  ASSERT_EQ(all<AgentCharged>().size(), 1U);
  const AgentCharged again = all<AgentCharged>()[0];
  ASSERT_TRUE(run(sessions_.add("s", again))) << "as by a process that was started again";
  EXPECT_EQ(all<AgentCharged>().size(), 1U);
  EXPECT_EQ(stored().summary.usage.all_tokens(), 170);
  EXPECT_TRUE(replay(stored().events).empty());
}

TEST_F(SessionsTest, AForkGoesOnWithoutTheOriginal) {
  model_.call("sandbox_provision", kTask);
  model_.text("done");
  begin();
  const auto size = static_cast<Seq>(stored().events.size());
  EXPECT_EQ(run(sessions_.fork("s", size + 1, "p")).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(run(sessions_.fork("s", 2, "q")).error().code, ErrorCode::kNotFound);
  const auto copy = run(sessions_.fork("s", 5, "p"));
  ASSERT_TRUE(copy) << copy.error().describe();
  EXPECT_EQ(copy->head, 6);
  EXPECT_EQ(copy->status, Status::kIdle);
  model_.text("otherwise");
  ASSERT_TRUE(run(sessions_.add(copy->id, message_of("go on", ""))));
  pass(std::chrono::seconds(5));
  EXPECT_EQ(all<Said>(copy->id).back().text, "otherwise");
  EXPECT_EQ(static_cast<Seq>(stored().events.size()), size);
}

TEST_F(SessionsTest, AForkHasCopiesOfSandboxesAndItsEndLeavesTheOriginalsAlone) {
  model_.call("sandbox_provision", R"({"task_description":"x","keep":true})");
  model_.text("done");
  begin();
  ASSERT_EQ(boxes_.alive.size(), 1U);
  const std::string original = boxes_.alive.begin()->first;
  const auto copy = run(sessions_.fork("s", 0, "p"));
  ASSERT_TRUE(copy) << copy.error().describe();
  ASSERT_EQ(boxes_.alive.size(), 2U);
  model_.call("sandbox_execute", fmt::format(R"({{"command":"ls","sandbox_id":"{}"}})", original));
  model_.text("seen");
  ASSERT_TRUE(run(sessions_.add(copy->id, message_of("look", ""))));
  pass(std::chrono::seconds(5));
  EXPECT_EQ(all<ToolEnded>(copy->id).back().outcome, ToolOutcome::kDone);
  EXPECT_TRUE(boxes_.alive.at(original).empty()) << "the copy's command is none of the original's";
  ASSERT_TRUE(run(sessions_.archive(copy->id)));
  pass(std::chrono::seconds(20));
  ASSERT_EQ(boxes_.alive.size(), 1U);
  EXPECT_TRUE(boxes_.alive.contains(original));
}

TEST_F(SessionsTest, WhatNobodyHasReadYetHasALimit) {
  model_.is_silent = true;
  begin();
  const std::string large(4 << 20, 'x');
  int taken = 0;
  Result<Seq> added = Seq{0};
  for (; added && taken < 20; ++taken) added = run(sessions_.add("s", message_of(large, "")));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, ErrorCode::kLimit);
  EXPECT_GT(taken, 3);
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(1));
  EXPECT_EQ(stored().summary.ended, "interrupted");
}

TEST_F(SessionsTest, WhatNobodyWillEverLookThroughIsNotShownAndNotWaitedFor) {
  boundary_.unreadable = "odd";
  model_.call("sandbox_provision", kTask);
  model_.call("sandbox_execute", R"({"command":"even"})");
  model_.text("odd");
  begin();
  EXPECT_EQ(stored().summary.ended, "end_turn");
  EXPECT_EQ(all<ModelAnswered>().back().shown, R"("withheld")");
  EXPECT_THAT(all<ToolEnded>().back().text, HasSubstr("even"));
  for (const StoredEvent& event : stored().events)
    EXPECT_EQ(write_public(event).find("odd"), std::string::npos) << write_public(event);
}

std::string provisions(std::size_t count) {
  std::string calls;
  for (std::size_t i = 0; i < count; ++i)
    calls +=
        fmt::format(R"({}{{"type":"tool_use","id":"t{}","name":"sandbox_provision","input":{}}})",
                    i == 0 ? "" : ",", i, R"({"task_description":"x","keep":true})");
  return "[" + calls + "]";
}

TEST_F(SessionsTest, ASessionHasNoMoreThanTwoHundredSandboxesAlsoOfOneAnswer) {
  model_.script.emplace_back(Answer{.content = provisions(203), .stop_reason = "tool_use"});
  model_.text("many");
  begin();
  EXPECT_EQ(stored().summary.ended, "end_turn");
  EXPECT_EQ(all<SandboxBound>().size(), 200U);
  EXPECT_EQ(boxes_.alive.size(), 200U) << "and none is made in vain";
  const auto ended = all<ToolEnded>();
  EXPECT_EQ(std::ranges::count(ended, ToolOutcome::kRefused, &ToolEnded::outcome), 3);

  // One that is gone makes room for another.
  const std::string gone = boxes_.alive.begin()->first;
  boxes_.alive.erase(gone);
  model_.call("sandbox_execute", fmt::format(R"({{"command":"ls","sandbox_id":"{}"}})", gone));
  model_.call("sandbox_provision", kTask);
  model_.text("one more");
  ASSERT_TRUE(run(sessions_.add("s", message_of("go on", ""))));
  pass(std::chrono::seconds(10));
  EXPECT_EQ(all<Said>().back().text, "one more");
  EXPECT_EQ(all<SandboxBound>().size(), 201U);
  EXPECT_EQ(all<SandboxReleased>().at(0).sandbox, gone);
  EXPECT_TRUE(replay(stored().events).empty());
}

TEST_F(SessionsTest, ASecretAtTheEdgeOfWhatIsShownIsGoneWhole) {
  const std::string before(kResultBytesMax / 2 - 7, 'a');
  const std::string command =
      fmt::format("{}{}{}", before, SimulatedBoundary::kSecret, std::string(kResultBytesMax, 'b'));
  model_.call("sandbox_provision", kTask);
  model_.call("sandbox_execute", fmt::format(R"({{"command":"{}"}})", command));
  model_.text("done");
  begin();
  const ToolEnded ended = all<ToolEnded>().back();
  EXPECT_EQ(ended.redacted, std::vector<std::string>{"password"});
  EXPECT_NE(ended.text.find("hunter2\n"), std::string::npos) << "the cut is in its middle";
  EXPECT_EQ(ended.shown.find("hunter"), std::string::npos);
  EXPECT_NE(ended.shown.find("exit code 0"), std::string::npos);
}

TEST_F(SessionsTest, AnAgentOfAnAgentIsToldNoSecret) {
  model_.call("spawn_agent", R"({"task":"use hunter2hunter2","system":"hunter2hunter2"})");
  model_.text("done");
  model_.text("heard");
  begin();
  for (const auto& [id, session] : tables_.sessions)
    if (id != "s")
      for (const StoredEvent& event : session.events)
        EXPECT_EQ(write_public(event).find(SimulatedBoundary::kSecret), std::string::npos);
  EXPECT_EQ(tables_.sessions.size(), 2U);
}

TEST_F(SessionsTest, TheIdOfAnotherProjectsSessionIsTaken) {
  model_.text("done");
  begin();
  EXPECT_EQ(
      run(sessions_.create({.id = "s", .project = "q", .agent = {.model = "m"}})).error().code,
      ErrorCode::kConflict);
  EXPECT_EQ(run(sessions_.create({.id = "s", .project = "p", .agent = {.model = "m"}}))->head,
            stored().summary.head)
      << "made twice, it is there once";
}

TEST_F(SessionsTest, SessionsThatRestAreForgotten) {
  model_.text("done");
  linux::TaskGroup going(*loop_);
  going.spawn(sessions_.keep_going());
  begin();
  EXPECT_EQ(sessions_.loaded(), 1U);
  pass(std::chrono::minutes(1));
  EXPECT_EQ(sessions_.loaded(), 0U);
}

TEST_F(SessionsTest, AFollowerSeesEverythingFromWhereItIsOn) {
  model_.call("sandbox_provision", kTask);
  model_.text("done");
  begin();
  const auto follower = sessions_.follow("s", {.after = 2});
  std::vector<StoredEvent> seen;
  for (int i = 0; i < 50; ++i) {
    const auto news = run(follower->next(loop_->now() + std::chrono::seconds(1)));
    ASSERT_TRUE(news);
    seen.insert(seen.end(), news->events.begin(), news->events.end());
    if (i == 5) {
      model_.text(std::string(600'000, 'x'));
      model_.text(std::string(600'000, 'y'));
      ASSERT_TRUE(run(sessions_.add("s", message_of("more", ""))));
    }
    if (i == 10) ASSERT_TRUE(run(sessions_.add("s", message_of("more", ""))));
  }
  EXPECT_EQ(seen, std::vector<StoredEvent>(stored().events.begin() + 2, stored().events.end()));
}

AgentSpec equipped_agent() {
  AgentSpec agent{.model = "m", .tools = {std::string(kNoTool)}};
  agent.memory = {{.store = "memstore_1", .name = "notes"}};
  agent.servers = {{.name = "far", .url = "https://far.example/mcp"}};
  return agent;
}

TEST_F(SessionsTest, ASessionBeginsWithItsNotesAndWithToolsOfServers) {
  model_.call("memory_write", R"({"path":"/a","content":"b"})");
  model_.call("far_do", "{}");
  model_.text("done");
  begin(equipped_agent());
  EXPECT_EQ(stored().summary.ended, "end_turn");
  EXPECT_THAT(model_.requests.at(0), HasSubstr("You know something."));
  EXPECT_THAT(model_.requests.at(0), HasSubstr(R"("name":"far_do")"));
  EXPECT_THAT(model_.requests.at(0), HasSubstr(R"("name":"memory_write")"));
  EXPECT_EQ(notebook_.written.size(), 1U);
  EXPECT_EQ(server_book_.runs.size(), 1U);
  const auto ended = all<ToolEnded>();
  EXPECT_FALSE(ended.at(0).is_error || ended.at(1).is_error);
  EXPECT_TRUE(ended.at(1).untrusted) << "a server's words are nobody's whom the session knows";
}

TEST_F(SessionsTest, AMemoryKeepsNoCredential) {
  model_.call("memory_write", R"({"path":"/a","content":"it is hunter2hunter2"})");
  model_.call("memory_read", R"({"path":"/hunter2hunter2"})");
  model_.text("done");
  begin(equipped_agent());
  const auto ended = all<ToolEnded>();
  EXPECT_EQ(ended.at(0).outcome, ToolOutcome::kRefused);
  EXPECT_THAT(ended.at(0).text, HasSubstr("password"));
  EXPECT_EQ(ended.at(1).outcome, ToolOutcome::kDone) << "what is only looked for is not kept";
  EXPECT_EQ(notebook_.written.size(), 1U);
}

// The server may have done it; nobody here knows.
TEST_F(SessionsTest, WhatAServerWasAskedByAProcessThatDiedIsNotAskedAgain) {
  Story story(equipped_agent());
  story.say("hi");
  story.add(Equipped{.asked = *story.state.equipping,
                     .tools = {{.server = "far", .name = "do", .alias = "far_do"}}});
  story.call({{"far_do", "{}"}});
  take_up(story);
  EXPECT_TRUE(server_book_.runs.empty());
  ASSERT_EQ(all<ToolEnded>().size(), 1U);
  EXPECT_EQ(all<ToolEnded>()[0].outcome, ToolOutcome::kInterrupted);
  EXPECT_THAT(all<ToolEnded>()[0].text, HasSubstr("may have run"));
}

AgentSpec agent_with_machine() {
  return {.model = "m", .tools = {"bash"}};
}

TEST_F(SessionsTest, AForkGoesOnWithACopyOfTheMachine) {
  model_.call("bash", kRun);
  model_.text("done");
  begin(agent_with_machine());
  const auto copy = run(sessions_.fork("s", 0, "p"));
  ASSERT_TRUE(copy) << copy.error().describe();
  ASSERT_EQ(boxes_.alive.size(), 2U);
  model_.call("bash", kRun);
  model_.text("seen");
  ASSERT_TRUE(run(sessions_.add(copy->id, message_of("look", ""))));
  pass(std::chrono::seconds(5));
  EXPECT_EQ(all<Said>(copy->id).back().text, "seen");
  EXPECT_EQ(boxes_.alive.size(), 2U) << "it works on the copy, and makes no machine of its own";
  EXPECT_EQ(boxes_.alive.at(machine_id_of(copy->id)).size(), 1U);
  const auto second = run(sessions_.fork(copy->id, 0, "p"));
  ASSERT_TRUE(second) << second.error().describe();
  EXPECT_TRUE(boxes_.alive.contains(machine_id_of(second->id))) << "so does a copy of the copy";
}

// The machine is gone with the process: one that is made again does not know what ran on the first.
TEST_F(SessionsTest, WhatRanOnAMachineThatIsGoneIsNotRunAgain) {
  Story story(agent_with_machine());
  story.say("hi");
  story.call({{"bash", kRun}});
  model_.call("bash", kRun);
  take_up(story);
  EXPECT_EQ(stored().summary.ended, "end_turn");
  ASSERT_EQ(all<ToolEnded>().size(), 2U);
  EXPECT_EQ(all<ToolEnded>()[0].outcome, ToolOutcome::kInterrupted);
  EXPECT_THAT(all<ToolEnded>()[0].text, HasSubstr("may have run"));
  EXPECT_EQ(all<ToolEnded>()[1].outcome, ToolOutcome::kDone) << "what comes next has a machine";
  EXPECT_THAT(boxes_.runs,
              testing::ElementsAre(testing::Pair(call_id_of("s", all<ToolEnded>()[1].call), 1)));
}

TEST_F(SessionsTest, AMachineThatWasInterruptedAtItsFirstCommandGoesWithItsSession) {
  model_.call("bash", kRun);
  hands_.hang_one_in = 1;
  begin(agent_with_machine());
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(1));
  EXPECT_EQ(boxes_.alive.size(), 1U) << "it is kept for what comes next";
  ASSERT_TRUE(run(sessions_.archive("s")));
  pass(std::chrono::seconds(10));
  EXPECT_TRUE(boxes_.alive.empty());
  EXPECT_TRUE(replay(stored().events).empty());
}

// Who interrupts is heard first when the store takes the call itself late.
TEST_F(SessionsTest, AMachineIsTheSessionsAlsoWhenThePersonWaitsToInterruptWhatMakesIt) {
  model_.call("bash", kRun);
  log_.refusals = 1'000;
  log_.refusal = make_error(ErrorCode::kUnavailable, "store", "no room");
  begin(agent_with_machine());
  ASSERT_TRUE(all<ToolCalled>().empty());
  linux::TaskGroup person(*loop_);
  person.spawn([](Sessions& sessions) -> Task<> {
    (void)co_await sessions.add("s", Interrupted{});
  }(sessions_));
  log_.refusals = 0;
  pass(std::chrono::seconds(20));
  ASSERT_EQ(all<ToolEnded>().size(), 1U);
  EXPECT_EQ(all<ToolEnded>()[0].outcome, ToolOutcome::kInterrupted);
  ASSERT_EQ(boxes_.alive.size(), 1U) << "it was made before that was stored";
  EXPECT_EQ(all<SandboxBound>().size(), 1U);
  EXPECT_TRUE(replay(stored().events).empty());
  ASSERT_TRUE(run(sessions_.archive("s")));
  pass(std::chrono::seconds(10));
  EXPECT_TRUE(boxes_.alive.empty());
}

TEST_F(SessionsTest, AMachineIsBoundWithTheCallThatMayMakeItAndWithNoOther) {
  model_.call("bash", R"({"command":7})");
  model_.call("bash", kRun);
  model_.text("done");
  begin(agent_with_machine());
  ASSERT_EQ(all<SandboxBound>().size(), 1U);
  const auto& events = stored().events;
  const auto bound = std::ranges::find_if(events, [](const StoredEvent& stored) {
    return std::holds_alternative<SandboxBound>(stored.event);
  });
  const auto* called = std::get_if<ToolCalled>(&(bound - 1)->event);
  ASSERT_NE(called, nullptr);
  EXPECT_EQ(called->input, kRun);
  EXPECT_EQ(bound->at_ms, (bound - 1)->at_ms);
  EXPECT_EQ(std::get<SandboxBound>(bound->event).call, (bound - 1)->seq);
}

TEST_F(SessionsTest, WhatRunsOnAMachineThatIsThereIsJoined) {
  Story story(agent_with_machine());
  story.say("hi");
  story.call({{"bash", kRun}});
  boxes_.alive[machine_id_of("s")][call_id_of("s", story.state.calls.at(0).seq)] = "ls";
  take_up(story);
  ASSERT_EQ(all<ToolEnded>().size(), 1U);
  EXPECT_EQ(all<ToolEnded>()[0].outcome, ToolOutcome::kDone);
  EXPECT_TRUE(boxes_.runs.empty()) << "it runs already";
  EXPECT_EQ(all<SandboxBound>().size(), 1U);
}

TEST_F(SessionsTest, WhereAMachineReachesTheOutsideItsWordsAreNotTrusted) {
  for (const bool has_network : {false, true}) {
    model_.call("sandbox_provision", kTask);
    model_.call("sandbox_execute", kRun);
    model_.text("done");
    AgentSpec agent{.model = "m"};
    if (has_network) agent.environment = "web";
    const std::string id = has_network ? "with" : "without";
    ASSERT_TRUE(run(sessions_.create(
        {.id = id, .project = "p", .agent = std::move(agent), .message = message_of("hi", "")})));
    pass(std::chrono::seconds(10));
    EXPECT_EQ(all<ToolEnded>(id).at(1).untrusted, has_network);
  }
}

TEST_F(SessionsTest, AnAgentOfAnAgentWritesNothingThatSomebodyWouldHaveToAllow) {
  AgentSpec agent = equipped_agent();
  agent.tools = {"spawn_agent"};
  agent.asks = {"memory_write"};
  model_.call("spawn_agent", R"({"task":"t"})");
  model_.call("memory_write", R"({"path":"/a","content":"b"})");
  model_.text("the child's");
  model_.text("done");
  begin(std::move(agent));
  EXPECT_TRUE(notebook_.written.empty());
  for (const auto& [id, session] : tables_.sessions) {
    const State state = fold(State{}, session.events);
    if (id == "s") continue;
    EXPECT_TRUE(state.agent.memory.at(0).read_only);
    for (const ServerTool& tool : state.server_tools) EXPECT_FALSE(tool.asks);
  }
}

TEST_F(SessionsTest, WhatIsSaidTogetherIsTakenAsAWholeOrNotAtAll) {
  model_.text("one");
  begin();
  const Seq before = stored().summary.head;
  const auto refused = run(sessions_.add_all(
      "s", {message_of("a", "x"), UserDecision{.call = 1, .allowed = true}, message_of("b", "y")}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(stored().summary.head, before) << "nothing of it was said";

  model_.text("two");
  const int commits = stored().commits;
  const auto taken = run(sessions_.add_all("s", {message_of("a", "x"), message_of("b", "y")}));
  ASSERT_TRUE(taken) << taken.error().describe();
  EXPECT_THAT(*taken, testing::ElementsAre(before + 1, before + 2));
  EXPECT_EQ(stored().commits, commits + 1);
  EXPECT_THAT(*run(sessions_.add_all("s", {message_of("a", "x")})),
              testing::ElementsAre(before + 1));
  pass(std::chrono::seconds(5));
  EXPECT_THAT(model_.requests.back(), HasSubstr(R"("text":"b")")) << "both are read at once";
  EXPECT_EQ(model_.requests.size(), 2U);
}

TEST_F(SessionsTest, AThreadAsksPeopleAndTheirAnswerReachesTheOneItWorksFor) {
  model_.call("spawn_agent", R"({"task":"look","agent":"helper"})");
  model_.call("bash", R"({"command":"ls"})");
  model_.text("seen");
  model_.text("all done");
  begin({.model = "m",
         .tools = {"spawn_agent", "bash"},
         .has_threads = true,
         .members =
             Members({{.name = "helper", .model = "m", .tools = {"bash"}, .asks = {"bash"}}})});
  EXPECT_EQ(stored().summary.status, Status::kWaitsInThread);
  const ThreadChanged waiting = all<ThreadChanged>().back();
  ASSERT_EQ(waiting.waits.size(), 1U);
  const std::string child = child_session_of("s", waiting.call);
  EXPECT_EQ(stored(child).summary.agent, "helper");
  const auto checked = run(
      sessions_.check_all(child, {UserDecision{.call = waiting.waits[0] + 1, .allowed = true}}));
  EXPECT_FALSE(checked);
  ASSERT_TRUE(run(sessions_.add(child, UserDecision{.call = waiting.waits[0], .allowed = true})));
  pass(std::chrono::seconds(10));
  EXPECT_EQ(stored().summary.status, Status::kIdle);
  EXPECT_EQ(all<Said>().back().text, "all done");
  EXPECT_EQ(all<ThreadChanged>().back().status, ThreadStatus::kEnded);
  ASSERT_EQ(boxes_.made.size(), 1U) << "they share the session's machine";
  EXPECT_TRUE(all<SandboxBound>(child).empty());
  EXPECT_EQ(all<SandboxBound>().size(), 1U) << "which is the session's";
}

// Its caller hears of that end, and of what it does since, in one piece.
TEST_F(SessionsTest, AnAgentThatWasSetToWorkAgainIsNotDoneWhereItHadEnded) {
  const AgentSpec helper{.name = "helper", .model = "m", .tools = {"bash"}};
  Story story(
      {.model = "m", .tools = {"spawn_agent"}, .has_threads = true, .members = Members({helper})});
  story.say("hi");
  story.call({{"spawn_agent", R"({"task":"look","agent":"helper"})"}});
  const Seq call = story.state.calls.at(0).seq;
  const std::string child = child_session_of("s", call);
  Story work(helper);
  work.say("look");
  work.answer(R"([{"type":"text","text":"seen"}])", "end_turn", {.input = 1});
  EXPECT_EQ(work.state.ended, EndReason::kEndTurn);
  work.say("look again");
  ASSERT_TRUE(run(sessions_.create(
      {.id = child, .project = "p", .agent = helper, .parent = "s", .parent_call = call})));
  auto& tables = tables_.sessions.at(child);
  tables.events = work.events;
  tables.summary.head = work.state.head;
  tables.summary.status = status_of(work.state);
  model_.script.emplace_back(Answer{.content = R"([{"type":"text","text":"seen more"}])",
                                    .stop_reason = "end_turn",
                                    .usage = {.input = 2}});
  take_up(story);
  const auto ended = all<ToolEnded>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].text, "seen more");
  EXPECT_EQ(ended[0].usage.input, 3) << "all of it is paid";
  EXPECT_EQ(all<ThreadChanged>().back().status, ThreadStatus::kEnded);
  EXPECT_EQ(all<Said>().back().text, "I see.");
}

TEST_F(SessionsTest, ABudgetThatGrowsLetsTheTurnGoOn) {
  model_.call("ask_human", R"({"question":"?"})", {.input = 100});
  model_.text("done");
  begin({.model = "m", .budget_tokens = 50});
  ASSERT_TRUE(run(sessions_.add("s", UserAnswer{.call = 5, .text = "yes"})));
  pass(std::chrono::seconds(5));
  EXPECT_EQ(stored().summary.ended, "budget_reached");
  ASSERT_TRUE(
      run(sessions_.add("s", AgentChanged{.agent = {.model = "m", .budget_tokens = 5'000}})));
  pass(std::chrono::seconds(5));
  EXPECT_EQ(stored().summary.ended, "end_turn");
}

}  // namespace
}  // namespace pons::session
