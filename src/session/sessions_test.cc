#include "pons/session/sessions.h"

#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "feed.h"
#include "pons/base/log.h"
#include "pons/linux/run_task.h"
#include "pons/linux/simulated_time.h"
#include "pons/session/call_id.h"
#include "pons/session/fold.h"
#include "pons/session/tool_text.h"
#include "pons/session/tools.h"
#include "simulated_hands.h"
#include "simulated_log.h"
#include "story.h"

namespace pons::session {
namespace {

using testing::HasSubstr;

// Says what the test has written down, one after the other.
class ScriptedModel final : public Model {
 public:
  explicit ScriptedModel(linux::Loop& loop) : loop_(loop) {}
  std::vector<std::variant<Answer, NoAnswer>> script;
  std::vector<std::string> requests;
  std::size_t next = 0;
  bool is_silent = false;

  void text(std::string words) {
    script.emplace_back(Answer{.content = R"([{"type":"text","text":")" + words + "\"}]",
                               .stop_reason = "end_turn"});
  }
  void call(const std::string& name, const std::string& input, Usage usage = {}) {
    script.emplace_back(Answer{.content = R"([{"type":"tool_use","id":"t","name":")" + name +
                                          R"(","input":)" + input + "}]",
                               .stop_reason = "tool_use",
                               .usage = usage});
  }

  Task<std::variant<Answer, NoAnswer>> ask(Question question, const Listener& listener) override {
    requests.push_back(question.request);
    if (is_silent) co_await loop_.sleep_for(std::chrono::hours(1'000));
    co_await loop_.sleep_for(std::chrono::milliseconds(1));
    if (next >= script.size()) co_return NoAnswer{.trouble = Trouble::kLasting, .message = "end"};
    auto answer = script[next++];
    if (const auto* said = std::get_if<Answer>(&answer))
      if (said->content.find("sandbox_provision") != std::string::npos)
        listener.on_tool(0, kProvision);
    co_return answer;
  }

 private:
  linux::Loop& loop_;
};

class SessionsTest : public testing::Test {
 protected:
  SessionsTest()
      : loop_(std::move(*linux::Loop::create())),
        time_(*loop_),
        clock_(*loop_),
        fate_(*loop_, clock_, 1, 0),
        log_(tables_, fate_, clock_, "one"),
        model_(*loop_),
        hands_(*loop_, boxes_, fate_),
        boundary_(fate_),
        sessions_(*loop_, clock_, log_, model_, hands_, boundary_) {
    configure_log({.level = LogLevel::kError, .descriptor = -1});
  }
  ~SessionsTest() override { configure_log(default_log_settings()); }

  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }
  Task<bool> sleep(Duration time) {
    co_await loop_->sleep_for(time);
    co_return true;
  }
  void pass(Duration time) { (void)run(sleep(time)); }
  // Begins a session and lets it work for a while.
  void begin(AgentSpec agent = {.model = "m"}) {
    const auto made = run(sessions_.create(
        {.id = "s", .project = "p", .agent = std::move(agent), .message = message_of("hi", "")}));
    ASSERT_TRUE(made) << made.error().describe();
    pass(std::chrono::seconds(10));
  }
  const Tables::Stored& stored(const std::string& id = "s") { return tables_.sessions.at(id); }
  template <class T>
  std::vector<T> all(const std::string& id = "s") {
    std::vector<T> found;
    for (const StoredEvent& event : stored(id).events)
      if (const auto* one = std::get_if<T>(&event.event)) found.push_back(*one);
    return found;
  }

  std::unique_ptr<linux::Loop> loop_;
  linux::SimulatedTime time_;
  JumpingClock clock_;
  Fate fate_;
  Tables tables_;
  Boxes boxes_;
  SimulatedLog log_;
  ScriptedModel model_;
  SimulatedHands hands_;
  SimulatedBoundary boundary_;
  Sessions sessions_;
};

TEST_F(SessionsTest, ATurnWithOneSandboxAndOneCommandTakesAtMostSevenCommits) {
  model_.call("sandbox_provision", kTask);
  model_.call("sandbox_execute", kRun);
  model_.text("done");
  begin();
  EXPECT_EQ(stored().summary.status, Status::kIdle);
  EXPECT_EQ(stored().summary.ended, "end_turn");
  EXPECT_LE(stored().commits, 7);
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

TEST_F(SessionsTest, WhatTheStoreWillNeverTakeIsNotTriedForEver) {
  for (const ErrorCode code : {ErrorCode::kLimit, ErrorCode::kInvalid}) {
    tables_.sessions.clear();
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
  EXPECT_TRUE(run(sessions_.archive("s")));
  EXPECT_EQ(run(sessions_.add("s", Interrupted{})).error().code, ErrorCode::kInvalid);
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
          R"([{"type":"tool_use","id":"a","name":"spawn_agent","input":{"task":"t","budget_percent":100}},)"
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
  EXPECT_LE(sum, 801);
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
  const auto original = boxes_.alive.begin()->first;
  const auto copy = run(sessions_.fork("s", 0, "p"));
  ASSERT_TRUE(copy) << copy.error().describe();
  ASSERT_EQ(boxes_.alive.size(), 2U);
  model_.call("sandbox_execute",
              fmt::format(R"({{"command":"ls","sandbox_id":"{}"}})", original.second));
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
