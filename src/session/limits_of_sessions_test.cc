// Where sessions end, and what people say to them all the same.

#include <gmock/gmock.h>

#include "driver.h"
#include "pons/session/call_id.h"
#include "sessions_fixture.h"

namespace pons::session {
namespace {

using testing::HasSubstr;

using SessionLimits = SessionsTest;

TEST_F(SessionLimits, ASummaryThatIsNotWholeNeverTakesThePlaceOfTheConversation) {
  for (const char* stop : {"tool_use", "max_tokens", "refusal", "pause_turn", ""}) {
    model_.call("rm_rf", "{}", {.input = 90});
    model_.text("half of");
    std::get<Answer>(model_.script.back()).stop_reason = stop;
    std::get<Answer>(model_.script.back()).usage = {.input = 5};
    model_.text("all of it");
    std::get<Answer>(model_.script.back()).stop_reason = "stop_sequence";
    model_.text("done");
    const std::string id = fmt::format("s{}", stop);
    ASSERT_TRUE(run(sessions_.create({.id = id,
                                      .project = "p",
                                      .agent = {.model = "m", .context_tokens = 100},
                                      .message = message_of("hi", "")})));
    pass(std::chrono::seconds(10));
    EXPECT_EQ(stored(id).summary.ended, "end_turn") << stop;
    ASSERT_EQ(all<ContextSummarised>(id).size(), 1U) << stop;
    EXPECT_EQ(all<ContextSummarised>(id)[0].summary, "all of it");
    EXPECT_THAT(all<ModelFailed>(id).at(0).message, HasSubstr("not whole"));
    EXPECT_EQ(all<ModelFailed>(id).at(0).usage.input, 5) << "it is paid all the same";
  }
}

TEST_F(SessionLimits, WhatWasTakenOutOfAFailureIsNamed) {
  model_.script.emplace_back(
      NoAnswer{.trouble = Trouble::kLasting, .message = "no key hunter2hunter2"});
  begin();
  const ModelFailed failed = all<ModelFailed>().at(0);
  EXPECT_EQ(failed.message.find("hunter2"), std::string::npos);
  EXPECT_EQ(failed.redacted, std::vector<std::string>{"password"});
  EXPECT_THAT(write_public(stored().events.at(static_cast<std::size_t>(failed.asked))),
              HasSubstr(R"("redacted":["password"])"));
}

class TroubledServers final : public Servers {
 public:
  Task<ServerOffer> list(ServerWay, std::vector<ServerGrant>) override {
    co_return ServerOffer{.tools = {},
                          .troubles = {{.server = "far", .message = "said hunter2hunter2"}}};
  }
  Task<Result<ServerReport>> call(ServerWay, ServerOrder) override { co_return ServerReport{}; }
};

TEST_F(SessionLimits, WhatWasTakenOutOfAServersTroubleIsNamed) {
  TroubledServers servers;
  Sessions sessions(*loop_, clock_, log_, model_, hands_, boundary_, {.servers = &servers});
  model_.text("done");
  AgentSpec agent{.model = "m"};
  agent.servers = {{.name = "far", .url = "https://far.example/mcp"}};
  ASSERT_TRUE(run(sessions.create(
      {.id = "s", .project = "p", .agent = agent, .message = message_of("hi", "")})));
  pass(std::chrono::seconds(5));
  ASSERT_EQ(all<ServerTrouble>().size(), 1U);
  EXPECT_EQ(all<ServerTrouble>()[0].redacted, std::vector<std::string>{"password"});
}

// ---- made twice

TEST_F(SessionLimits, AMessageToASessionThatIsThereIsAddedOnceByItsKey) {
  const auto make = [&](const std::string& text, std::string key) {
    return run(sessions_.create({.id = "s",
                                 .project = "p",
                                 .agent = {.model = "m"},
                                 .message = message_of(text, std::move(key))}));
  };
  model_.text("one");
  model_.text("two");
  ASSERT_TRUE(make("hi", "a"));
  pass(std::chrono::seconds(5));
  ASSERT_TRUE(make("hi", "a")) << "the answer was lost";
  EXPECT_EQ(all<UserMessage>().size(), 1U);
  const auto second = make("more", "b");
  ASSERT_TRUE(second) << second.error().describe();
  EXPECT_GT(second->head, 2);
  pass(std::chrono::seconds(5));
  ASSERT_EQ(all<UserMessage>().size(), 2U);
  EXPECT_EQ(all<Said>().back().text, "two");
  EXPECT_EQ(make("hi", "").error().code, ErrorCode::kConflict) << "it may have been said before";
  EXPECT_EQ(all<UserMessage>().size(), 2U);
  ASSERT_TRUE(run(sessions_.archive("s")));
  EXPECT_EQ(make("late", "c").error().code, ErrorCode::kConflict)
      << "nothing is said here any more";
}

// ---- commands that nobody waits for

TEST_F(SessionLimits, ACommandInASandboxThatStaysIsStoppedHoweverOftenThatFails) {
  model_.call("sandbox_provision", R"({"task_description":"x","keep":true})");
  model_.call("sandbox_execute", kRun);
  hands_.hang_one_in = 1;
  begin();
  ASSERT_EQ(boxes_.running.size(), 1U);
  hands_.stops_that_fail = 3;
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(30));
  EXPECT_EQ(boxes_.alive.size(), 1U) << "it was to be kept";
  EXPECT_TRUE(boxes_.running.empty());
}

TEST_F(SessionLimits, WhatADyingProcessDidNotStopTheNextOneStops) {
  model_.call("bash", kRun);
  hands_.hang_one_in = 1;
  begin({.model = "m", .tools = {"bash"}});
  hands_.stops_that_fail = 1'000'000;
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(1));
  ASSERT_EQ(boxes_.running.size(), 1U);
  SimulatedLog log(tables_, fate_, clock_, "one");
  SimulatedHands hands(*loop_, boxes_, fate_);
  Sessions next(*loop_, clock_, log, model_, hands, boundary_, extras_);
  linux::TaskGroup group(*loop_);
  group.spawn(next.keep_going());
  pass(std::chrono::seconds(10));
  EXPECT_TRUE(boxes_.running.empty());
  group.cancel_all();
}

// ---- many of them

TEST_F(SessionLimits, HoweverManySessionsAreAtWorkTheLastOnesAreTakenUpToo) {
  constexpr std::size_t kMany = 2'050;
  model_.is_silent = true;
  Story story;
  story.say("hi");
  for (std::size_t i = 0; i < kMany; ++i) {
    const std::string id = fmt::format("s{:05}", i);
    tables_.sessions[id] = {
        .summary = {.id = id, .project = "p", .status = Status::kRunning, .head = story.state.head},
        .events = story.events,
        .owner = "one"};
  }
  linux::TaskGroup group(*loop_);
  group.spawn(sessions_.keep_going());
  pass(std::chrono::minutes(2));
  EXPECT_EQ(sessions_.loaded(), kMany);
  group.cancel_all();
}

// ---- the store

TEST_F(SessionLimits, WhatTheStoreWillNeverTakeIsGivenUpAlsoBehindATimeout) {
  model_.text("too much");
  ASSERT_TRUE(run(sessions_.create(
      {.id = "s", .project = "p", .agent = {.model = "m"}, .message = message_of("hi", "")})));
  log_.refused = {make_error(ErrorCode::kTimeout, "store", "took too long"),
                  make_error(ErrorCode::kLimit, "store", "too large")};
  pass(std::chrono::seconds(30));
  EXPECT_EQ(stored().summary.ended, "model_failed");
  EXPECT_THAT(all<ModelFailed>().at(0).message, HasSubstr("cannot be stored"));
}

// ---- a log has an end

TEST_F(SessionLimits, ASessionOfVeryManyEventsEndsItsTurnAndSaysSo) {
  Story story;
  story.state.head = kEventsOfWorkMax - 2;
  story.say("hi");
  ASSERT_TRUE(story.state.asked);
  story.call({{"rm_rf", "{}"}});
  EXPECT_EQ(story.state.ended, EndReason::kCallLimit);
  EXPECT_THAT(story.all_of<TurnEnded>().at(0).message, HasSubstr("as many events"));
}

class NoAudience final : public Audience {
 public:
  void on_events(const std::string&, const std::vector<StoredEvent>&) override {}
  void on_delta(const std::string&, Seq, std::string_view) override {}
  bool wants_deltas(const std::string&) const override { return false; }
  void on_thinking(const std::string&, Seq) override {}
};

TEST_F(SessionLimits, ASessionOfVeryManyEventsTakesWhatEndsItAndInTheEndNothing) {
  NoAudience audience;
  World world{.loop = *loop_,
              .clock = clock_,
              .log = log_,
              .model = model_,
              .hands = hands_,
              .boundary = boundary_,
              .audience = audience,
              .extras = {},
              .run_child = {},
              .stop_child = {},
              .charge_question = {}};
  Chores chores(world);
  const auto takes = [&](Seq head, Event event) {
    State state = Story().state;
    state.head = head;
    return Driver(world, chores, {.session = "s"}, state, {}).check({std::move(event)}).has_value();
  };
  EXPECT_TRUE(takes(kEventsOfWorkMax - 1, message_of("hi", "")));
  EXPECT_FALSE(takes(kEventsOfWorkMax, message_of("hi", "")));
  EXPECT_TRUE(takes(kEventsOfWorkMax, Interrupted{}));
  EXPECT_FALSE(takes(kEventsTakenMax, Interrupted{}));
  EXPECT_LT(kEventsTakenMax, kEventsReadMax);
}

}  // namespace
}  // namespace pons::session
