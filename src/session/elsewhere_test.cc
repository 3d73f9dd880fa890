#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "driver.h"
#include "feed.h"
#include "pons/base/log.h"
#include "pons/linux/run_task.h"
#include "pons/linux/simulated_time.h"
#include "pons/session/call_id.h"
#include "pons/session/fold.h"
#include "pons/session/replay.h"
#include "pons/session/sessions.h"
#include "pons/session/tools.h"
#include "simulated_hands.h"
#include "simulated_log.h"
#include "story.h"

namespace pons::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kGiveTask = R"({"task":"t","agent":"helper"})";

// Says what the test has written down for that agent, one after the other.
class ScriptedModel final : public Model {
 public:
  explicit ScriptedModel(linux::Loop& loop) : loop_(loop) {}
  std::map<std::string, std::vector<std::string>> script;  // by the agent's name
  Hands* hands = nullptr;                                  // of a harness in the machine

  void call(const std::string& agent, const std::string& tool, const std::string& input) {
    script[agent].push_back(
        fmt::format(R"([{{"type":"tool_use","id":"t{}","name":"{}","input":{}}}])",
                    script[agent].size(), tool, input));
  }
  void text(const std::string& agent, const std::string& words) {
    script[agent].push_back(fmt::format(R"([{{"type":"text","text":"{}"}}])", words));
  }

  Task<std::variant<Answer, NoAnswer>> ask(Question question, const Listener&) override {
    co_await loop_.sleep_for(std::chrono::milliseconds(1));
    if (question.in_machine) (void)co_await hands->provision(question.machine);
    auto& rest = script[question.agent];
    if (rest.empty()) co_return NoAnswer{.trouble = Trouble::kLasting, .message = "end"};
    Answer answer{.content = std::move(rest.front())};
    rest.erase(rest.begin());
    answer.stop_reason =
        answer.content.find("tool_use") == std::string::npos ? "end_turn" : "tool_use";
    co_return answer;
  }

 private:
  linux::Loop& loop_;
};

// Two nodes, as if on two machines.
class ElsewhereTest : public testing::Test {
 protected:
  struct Node {
    Node(ElsewhereTest& test, const std::string& name)
        : log(test.tables_, test.fate_, test.clock_, name),
          hands(*test.loop_, test.boxes_, test.fate_, name),
          sessions(*test.loop_, test.clock_, log, test.model_, hands, test.boundary_, {},
                   {.node = name}),
          tasks(*test.loop_) {
      tasks.spawn(sessions.keep_going());
    }
    SimulatedLog log;
    SimulatedHands hands;
    Sessions sessions;
    linux::TaskGroup tasks;
  };

  ElsewhereTest()
      : loop_(std::move(*linux::Loop::create())),
        time_(*loop_),
        clock_(*loop_),
        fate_(*loop_, clock_, 1, 0),
        model_(*loop_),
        boundary_(fate_),
        one_(std::make_unique<Node>(*this, "one")),
        two_(std::make_unique<Node>(*this, "two")) {
    configure_log({.level = LogLevel::kError, .descriptor = -1});
    fate_.calm_down();
    pass(std::chrono::seconds(1));
  }
  ~ElsewhereTest() override { configure_log(default_log_settings()); }

  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }
  Task<bool> sleep(Duration time) {
    co_await loop_->sleep_for(time);
    co_return true;
  }
  void pass(Duration time) { (void)run(sleep(time)); }
  void begin(AgentSpec agent) {
    const auto made = run(one_->sessions.create(
        {.id = "s", .project = "p", .agent = std::move(agent), .message = message_of("hi", "")}));
    ASSERT_TRUE(made) << made.error().describe();
    pass(std::chrono::seconds(10));
  }
  // Longer than others wait.
  void lose_one() {
    one_.reset();
    pass(std::chrono::minutes(1));
  }
  // Its node lives, and was not heard for so long that the other one has taken the session.
  void move_to_two() {
    auto& session = tables_.sessions.at("s");
    session.owner = "nobody";
    session.lease_until = 0;
    pass(std::chrono::seconds(30));
    ASSERT_EQ(stored().owner, "two");
  }
  const Tables::Stored& stored(const std::string& id = "s") { return tables_.sessions.at(id); }
  template <class T>
  std::vector<T> all(const std::string& id = "s") {
    std::vector<T> found;
    for (const StoredEvent& event : stored(id).events)
      if (const auto* one = std::get_if<T>(&event.event)) found.push_back(*one);
    return found;
  }
  std::set<std::string> alive() const {
    std::set<std::string> ids;
    for (const auto& [id, jobs] : boxes_.alive) ids.insert(id);
    return ids;
  }

  std::unique_ptr<linux::Loop> loop_;
  linux::SimulatedTime time_;
  JumpingClock clock_;
  Fate fate_;
  Tables tables_;
  Boxes boxes_;
  ScriptedModel model_;
  SimulatedBoundary boundary_;
  std::unique_ptr<Node> one_;
  std::unique_ptr<Node> two_;
};

AgentSpec with_machine() {
  return {.model = "m", .tools = {"bash"}};
}

TEST_F(ElsewhereTest, WhatIsSaidToOneNodeReachesTheSessionThatTheOtherHas) {
  one_->hands.hang_one_in = 1;
  model_.call("default", "bash", kRun);
  begin(with_machine());
  const auto seq = run(two_->sessions.add("s", message_of("more", "once")));
  ASSERT_TRUE(seq) << seq.error().describe();
  EXPECT_EQ(run(two_->sessions.add("s", message_of("more", "once"))).value(), *seq)
      << "said twice, it is there once";
  EXPECT_EQ(all<UserMessage>().size(), 2U);
  EXPECT_EQ(stored().owner, "one");
  EXPECT_EQ(run(two_->sessions.add("s", UserAnswer{.call = 1, .text = "x"})).error().code,
            ErrorCode::kInvalid)
      << "its refusal comes back, too";
}

TEST_F(ElsewhereTest, ASessionAtRestStaysWhereItsMachineIs) {
  model_.call("default", "bash", kRun);
  model_.text("default", "done");
  begin(with_machine());
  ASSERT_EQ(stored().summary.status, Status::kIdle);
  pass(std::chrono::minutes(5));
  model_.call("default", "bash", kRun);
  model_.text("default", "again");
  ASSERT_TRUE(run(two_->sessions.add("s", message_of("go on", ""))));
  pass(std::chrono::seconds(10));
  EXPECT_EQ(all<Said>().back().text, "again");
  EXPECT_TRUE(all<Resumed>().empty());
  EXPECT_EQ(boxes_.alive.at(machine_id_of("s")).size(), 2U) << "both ran there";
}

TEST_F(ElsewhereTest, OnAnotherNodeASessionHasAnotherMachineAndIsTold) {
  one_->hands.hang_one_in = 1;
  model_.call("default", "bash", kRun);
  begin(with_machine());
  model_.call("default", "bash", kRun);
  model_.text("default", "done");
  lose_one();
  EXPECT_EQ(stored().summary.status, Status::kIdle);
  ASSERT_EQ(all<ToolEnded>().size(), 2U);
  EXPECT_EQ(all<ToolEnded>()[0].outcome, ToolOutcome::kInterrupted);
  EXPECT_THAT(all<ToolEnded>()[0].text, HasSubstr("may have run"));
  EXPECT_THAT(all<ToolEnded>()[1].text, HasSubstr("new machine"));
  const std::string machine = machine_id_of(machine_name_of("s", 1));
  EXPECT_EQ(boxes_.nodes.at(machine), "two");
  for (const auto& [call, runs] : boxes_.runs) EXPECT_EQ(runs, 1) << call;
  EXPECT_EQ(alive().size(), 2U) << "nobody else reaches the one that was left behind";
  one_ = std::make_unique<Node>(*this, "one");
  pass(std::chrono::minutes(1));
  EXPECT_EQ(alive(), std::set<std::string>{machine}) << "its node ends it when it is back";
  EXPECT_TRUE(replay(stored().events).empty());
}

TEST_F(ElsewhereTest, AForkOfASessionThatHasMovedGoesOnWithACopyOfTheMachineItHasNow) {
  model_.call("default", "bash", kRun);
  model_.text("default", "done");
  begin(with_machine());
  lose_one();
  model_.call("default", "bash", kRun);
  model_.text("default", "moved");
  ASSERT_TRUE(run(two_->sessions.add("s", message_of("go on", ""))));
  pass(std::chrono::seconds(10));
  const auto copy = run(two_->sessions.fork("s", 0, "p"));
  ASSERT_TRUE(copy) << copy.error().describe();
  model_.call("default", "bash", kRun);
  model_.text("default", "seen");
  ASSERT_TRUE(run(two_->sessions.add(copy->id, message_of("look", ""))));
  pass(std::chrono::seconds(10));
  EXPECT_EQ(all<Said>(copy->id).back().text, "seen");
  EXPECT_EQ(boxes_.alive.at(machine_id_of(machine_name_of(copy->id, 1))).size(), 1U)
      << "it works on the copy, and makes no machine of its own";
}

TEST_F(ElsewhereTest, AnEndOnOneNodeIsSeenByWhoeverFollowsOnTheOther) {
  model_.text("default", "done");
  begin({.model = "m"});
  const auto follow = [&] {
    return two_->sessions.follow("s", {.after = stored().summary.head, .with_deltas = false});
  };
  const auto next = [&](Follower& follower) {
    return run(follower.next(loop_->now() + std::chrono::seconds(30)));
  };
  auto follower = follow();
  while (!next(*follower).value().events.empty()) continue;
  ASSERT_TRUE(run(one_->sessions.archive("s")));
  std::vector<StoredEvent> seen;
  for (int i = 0; i < 3 && seen.empty(); ++i) seen = next(*follower).value().events;
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Archived>(seen[0].event));
  EXPECT_EQ(run(two_->sessions.add("s", message_of("more", ""))).error().code, ErrorCode::kInvalid);

  follower = follow();
  tables_.sessions.erase("s");
  one_->sessions.forget("s");
  bool is_told = false;
  for (int i = 0; i < 3 && !is_told; ++i) {
    const auto heard = next(*follower);
    is_told = !heard && heard.error().code == ErrorCode::kNotFound;
  }
  EXPECT_TRUE(is_told) << "also where the other one's word is not heard";
}

AgentSpec coordinator() {
  AgentSpec helper{.name = "helper", .model = "m", .tools = {"bash", std::string(kAskHuman)}};
  AgentSpec agent{.model = "m", .tools = {std::string(kSpawnAgent)}, .has_threads = true};
  agent.members = Members({std::move(helper)});
  return agent;
}

TEST_F(ElsewhereTest, AThreadStaysWithTheMachineOfItsSessionUntilThatIsLost) {
  model_.call("default", std::string(kSpawnAgent), kGiveTask);
  model_.call("helper", "bash", kRun);
  model_.call("helper", std::string(kAskHuman), R"({"question":"which?"})");
  begin(coordinator());
  const std::string thread = child_session_of("s", all<ToolCalled>().at(0).asked + 2);
  ASSERT_EQ(stored(thread).summary.status, Status::kWaitsForPerson);
  EXPECT_EQ(stored(thread).summary.home, "one");

  model_.call("helper", "bash", kRun);
  model_.text("helper", "it is lost");
  model_.text("default", "done");
  lose_one();
  const Seq question = fold(State{}, stored(thread).events).calls.back().seq;
  ASSERT_TRUE(run(two_->sessions.add(thread, UserAnswer{.call = question, .text = "it"})));
  pass(std::chrono::seconds(20));
  EXPECT_THAT(all<ToolEnded>(thread).back().text, HasSubstr("machine is lost"));
  EXPECT_EQ(all<ToolEnded>(thread).back().outcome, ToolOutcome::kRefused);
  EXPECT_EQ(all<Said>().back().text, "done");
  EXPECT_EQ(stored(thread).summary.home, "") << "nothing of it is anywhere";
}

TEST_F(ElsewhereTest, AThreadThatStaysWhereItsSessionWasDoesNotMakeItsMachineAgain) {
  model_.call("default", std::string(kSpawnAgent), kGiveTask);
  model_.call("helper", "bash", kRun);
  model_.call("helper", std::string(kAskHuman), R"({"question":"which?"})");
  begin(coordinator());
  const std::string thread = child_session_of("s", all<ToolCalled>().at(0).asked + 2);
  ASSERT_EQ(stored(thread).summary.status, Status::kWaitsForPerson);
  ASSERT_EQ(alive(), std::set<std::string>{machine_id_of("s")});

  move_to_two();
  ASSERT_EQ(alive(), std::set<std::string>()) << "the machine was left behind, and is ended";

  model_.call("helper", "bash", kRun);
  model_.text("helper", "it is lost");
  model_.text("default", "done");
  const Seq question = fold(State{}, stored(thread).events).calls.back().seq;
  ASSERT_TRUE(run(two_->sessions.add(thread, UserAnswer{.call = question, .text = "it"})));
  pass(std::chrono::seconds(20));
  EXPECT_EQ(stored(thread).owner, "one");
  EXPECT_THAT(all<ToolEnded>(thread).back().text, HasSubstr("machine is lost"));
  EXPECT_EQ(all<ToolEnded>(thread).back().outcome, ToolOutcome::kRefused);
  EXPECT_EQ(alive(), std::set<std::string>()) << "nobody would end it";
  EXPECT_EQ(all<Said>().back().text, "done");
}

TEST_F(ElsewhereTest, AMachineThatIsMadeWhileItsSessionLeavesIsEndedAndNothingRunsInIt) {
  one_->hands.provision_takes = std::chrono::minutes(1);
  model_.call("default", std::string(kSpawnAgent), kGiveTask);
  model_.call("helper", "bash", kRun);
  begin(coordinator());
  move_to_two();
  ASSERT_EQ(alive(), std::set<std::string>()) << "it is still being made, and was ended in vain";
  model_.text("helper", "it is lost");
  model_.text("default", "done");
  pass(std::chrono::minutes(1));
  EXPECT_TRUE(boxes_.made.contains(machine_id_of("s")));
  EXPECT_EQ(alive(), std::set<std::string>());
  EXPECT_TRUE(boxes_.runs.empty());
  EXPECT_EQ(all<Said>().back().text, "done");
}

AgentSpec coordinator_of_harness() {
  AgentSpec helper{.name = "helper", .model = "m", .tools = {std::string(kAskHuman)}};
  helper.harness = "claude-code";
  helper.harness_in_machine = true;
  AgentSpec agent{.model = "m", .tools = {std::string(kSpawnAgent)}, .has_threads = true};
  agent.members = Members({std::move(helper)});
  return agent;
}

TEST_F(ElsewhereTest, AHarnessThatStaysWhereItsSessionWasDoesNotMakeItsMachineAgain) {
  model_.hands = &one_->hands;
  model_.call("default", std::string(kSpawnAgent), kGiveTask);
  model_.call("helper", std::string(kAskHuman), R"({"question":"which?"})");
  begin(coordinator_of_harness());
  const std::string thread = child_session_of("s", all<ToolCalled>().at(0).asked + 2);
  ASSERT_EQ(stored(thread).summary.status, Status::kWaitsForPerson);
  ASSERT_EQ(alive(), std::set<std::string>{machine_id_of("s")});

  move_to_two();
  ASSERT_EQ(alive(), std::set<std::string>()) << "the machine was left behind, and is ended";

  model_.text("helper", "worked");
  model_.text("default", "done");
  const Seq question = fold(State{}, stored(thread).events).calls.back().seq;
  ASSERT_TRUE(run(two_->sessions.add(thread, UserAnswer{.call = question, .text = "it"})));
  pass(std::chrono::seconds(20));
  EXPECT_EQ(stored(thread).owner, "one");
  EXPECT_THAT(all<ModelFailed>(thread).back().message, HasSubstr("machine is lost"));
  EXPECT_EQ(stored(thread).summary.ended, name_of(EndReason::kModelFailed));
  EXPECT_EQ(alive(), std::set<std::string>()) << "nobody would end it";
  EXPECT_EQ(all<Said>().back().text, "done");
}

TEST_F(ElsewhereTest, AMachineThatAHarnessMakesWhileItsSessionLeavesIsEnded) {
  model_.hands = &one_->hands;
  one_->hands.provision_takes = std::chrono::minutes(1);
  model_.call("default", std::string(kSpawnAgent), kGiveTask);
  model_.text("helper", "worked");
  model_.text("default", "done");
  begin(coordinator_of_harness());
  move_to_two();
  ASSERT_EQ(alive(), std::set<std::string>()) << "it is still being made, and was ended in vain";
  pass(std::chrono::minutes(1));
  EXPECT_TRUE(boxes_.made.contains(machine_id_of("s")));
  EXPECT_EQ(alive(), std::set<std::string>());
  EXPECT_EQ(all<ToolEnded>().back().text, "worked") << "what it has said is said";
  EXPECT_EQ(all<Said>().back().text, "done");
}

TEST_F(ElsewhereTest, AMachineThatASessionMakesWhileItIsTakenIsEndedAndNothingRunsInIt) {
  one_->hands.provision_takes = std::chrono::minutes(1);
  model_.call("default", "bash", kRun);
  model_.text("default", "done");
  begin(with_machine());
  move_to_two();
  ASSERT_EQ(alive(), std::set<std::string>()) << "it is still being made, and was ended in vain";
  pass(std::chrono::minutes(1));
  EXPECT_TRUE(boxes_.made.contains(machine_id_of("s")));
  EXPECT_EQ(alive(), std::set<std::string>());
  EXPECT_TRUE(boxes_.runs.empty());
  EXPECT_EQ(all<Said>().back().text, "done");
}

TEST_F(ElsewhereTest, ATaskThatIsGivenAfterAMoveIsDoneOnTheMachineOfNow) {
  model_.text("default", "hello");
  begin(coordinator());
  lose_one();
  model_.call("default", std::string(kSpawnAgent), kGiveTask);
  model_.call("helper", "bash", kRun);
  model_.text("helper", "worked");
  model_.text("default", "done");
  ASSERT_TRUE(run(two_->sessions.add("s", message_of("go on", ""))));
  pass(std::chrono::seconds(20));
  EXPECT_EQ(all<Said>().back().text, "done");
  EXPECT_EQ(alive(), std::set<std::string>{machine_id_of(machine_name_of("s", 1))});
  EXPECT_EQ(all<SandboxBound>().size(), 1U);
}

}  // namespace
}  // namespace pons::session
