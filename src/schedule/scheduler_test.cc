#include "pons/schedule/scheduler.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "schedule_fixture.h"
#include "ticking.h"

namespace pons::schedule {
namespace {

using namespace std::chrono;

class SchedulerTest : public ScheduleTest {
 protected:
  std::vector<std::int64_t> scheduled(const std::string& id) {
    std::vector<std::int64_t> times;
    for (const schedule::Run& one : runs(id))
      if (one.scheduled_ms) times.push_back(*one.scheduled_ms);
    std::ranges::sort(times);
    return times;
  }
  using Times = std::vector<std::int64_t>;
};

TEST_F(SchedulerTest, ATickIsRunOnceWhenItsTimeHasCome) {
  const auto made = make(spec(daily()));
  const auto one = process();
  at(utc(2026, 11, 16, 8, 59, 59), *one);
  EXPECT_TRUE(made_.all.empty());
  at(utc(2026, 11, 16, 9, 0, 31), *one);
  at(utc(2026, 11, 16, 9, 0, 32), *one);
  at(utc(2026, 11, 16, 9, 2), *one);
  const auto all = runs(made.id);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all.front().scheduled_ms, to_ms(utc(2026, 11, 16, 9)));
  EXPECT_EQ(all.front().session, session_id_for(all.front().id).text());
  EXPECT_EQ(all.front().error, std::nullopt);
  EXPECT_EQ(made_.all.size(), 1U);
  EXPECT_EQ(find(made.id).last_run_ms, to_ms(utc(2026, 11, 16, 9, 0, 31)));
  at(utc(2026, 11, 17, 9, 0, 31), *one);
  EXPECT_EQ(scheduled(made.id), (Times{to_ms(utc(2026, 11, 16, 9)), to_ms(utc(2026, 11, 17, 9))}));
}

TEST_F(SchedulerTest, TheSessionIsMadeOfWhatTheDeploymentHolds) {
  DeploymentSpec wanted = spec(daily());
  wanted.vault_ids = R"(["vlt_1"])";
  make(wanted);
  const auto one = process();
  at(utc(2026, 11, 16, 9, 1), *one);
  ASSERT_EQ(one->starter.orders.size(), 1U);
  EXPECT_EQ(one->starter.orders.front().spec, wanted);
  EXPECT_EQ(one->starter.orders.front().run.project, "p");
}

TEST_F(SchedulerTest, ItSleepsUntilTheNextTickAndNotForLong) {
  const auto one = process();
  EXPECT_EQ(run(one->scheduler.pass()), seconds(10));
  make(spec(daily()));
  EXPECT_EQ(run(one->scheduler.pass()), seconds(10));
  go_to(utc(2026, 11, 16, 8, 59, 57));
  const auto rest = run(one->scheduler.pass());
  EXPECT_GE(rest, seconds(3));
  EXPECT_LE(rest, seconds(10));
}

TEST(Spread, IsSmallAndTheSameEachTime) {
  ManualClock clock;
  Zones zones(clock);
  const auto ticking = *Ticking::read({.expression = "* * * * *", .timezone = "UTC"}, zones);
  const auto rare = *Ticking::read({.expression = "0 9 * * *", .timezone = "UTC"}, zones);
  std::set<seconds> seen;
  for (int i = 0; i < 200; ++i) {
    const std::string id = "depl_" + std::to_string(i);
    const auto first = next_tick(ticking, id, utc(2026, 1, 1));
    const auto second = next_tick(ticking, id, first->at);
    EXPECT_EQ(first->due - first->at, second->due - second->at);
    EXPECT_GE(first->due, first->at);
    EXPECT_LE(first->due - first->at, seconds(6));
    const auto daily = next_tick(rare, id, utc(2026, 1, 1));
    EXPECT_LE(daily->due - daily->at, seconds(30));
    seen.insert(daily->due - daily->at);
  }
  EXPECT_GT(seen.size(), 20U);
}

TEST_F(SchedulerTest, ClocksThatAreChangedNeitherLoseNorDoubleARun) {
  const auto made = make(spec(daily("30 2 * * *", "Europe/Berlin")));
  const auto one = process();
  // March: 02:30 is not there and comes at 03:00, which is 01:00Z.
  clock_.set(utc(2027, 3, 27, 12));
  for (auto now = utc(2027, 3, 27, 12); now < utc(2027, 3, 29, 12); now += minutes(30))
    at(now + seconds(31), *one);
  // October: it is there twice and comes the first time.
  clock_.set(utc(2027, 10, 30, 12));
  run(deployments_.pause("p", made.id)).value();
  run(deployments_.unpause("p", made.id)).value();
  for (auto now = utc(2027, 10, 30, 12); now < utc(2027, 11, 1, 12); now += minutes(30))
    at(now + seconds(31), *one);
  const auto times = scheduled(made.id);
  EXPECT_EQ(times, (Times{to_ms(utc(2027, 3, 28, 1)), to_ms(utc(2027, 3, 29, 0, 30)),
                          to_ms(utc(2027, 10, 31, 0, 30)), to_ms(utc(2027, 11, 1, 1, 30))}));
}

TEST_F(SchedulerTest, TwoProcessesStartEachTickOnce) {
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(make(spec(daily("* * * * *"))).id);
  const auto one = process("one"), two = process("two");
  const auto both = [](Scheduler& a, Scheduler& b, linux::Loop& loop) -> Task<bool> {
    const auto work = [](Scheduler& of) -> Task<> {
      co_await of.pass();
      co_await of.settled(kNever);
    };
    linux::TaskGroup group(loop);
    group.spawn(work(a));
    group.spawn(work(b));
    co_await group.wait_until_empty(kNever);
    co_return true;
  };
  for (int i = 0; i < 5; ++i) {
    clock_.pass(minutes(1));
    run(both(one->scheduler, two->scheduler, *loop_));
  }
  clock_.pass(seconds(20));
  run(both(one->scheduler, two->scheduler, *loop_));
  EXPECT_EQ(made_.all.size(), 100U);
  EXPECT_EQ(made_.asked, 100U);
  for (const std::string& id : ids) EXPECT_EQ(scheduled(id).size(), 5U);
}

TEST_F(SchedulerTest, TwoProcessesWithAConnectionEach) {
  const auto other = open(*loop_, directory_);
  Deployments others(*other, clock_, zones_);
  FakeStarter starter(*loop_, made_);
  Scheduler rival(*loop_, clock_, *other, zones_, others, starter, {.owner = "two"});
  const auto made = make(spec(daily("* * * * *")));
  const auto one = process();
  for (int i = 0; i < 10; ++i) {
    clock_.pass(minutes(1));
    const auto both = [](Scheduler& a, Scheduler& b, linux::Loop& loop) -> Task<bool> {
      const auto work = [](Scheduler& of) -> Task<> {
        co_await of.pass();
        co_await of.settled(kNever);
      };
      linux::TaskGroup group(loop);
      group.spawn(work(a));
      group.spawn(work(b));
      co_await group.wait_until_empty(kNever);
      co_return true;
    };
    run(both(one->scheduler, rival, *loop_));
  }
  EXPECT_EQ(made_.all.size(), scheduled(made.id).size());
  EXPECT_GE(made_.all.size(), 9U);
}

TEST_F(SchedulerTest, AProcessThatDiesBeforeTheSessionIsMadeLeavesItToTheNext) {
  const auto made = make(spec(daily()));
  auto one = process();
  one->starter.hold(true, false);
  go_to(utc(2026, 11, 16, 9, 1));
  begin_pass(*one);
  EXPECT_TRUE(runs(made.id).empty());  // nobody knows yet what comes of it
  one.reset();
  one = process();  // of the same name: at once
  pass(*one);
  ASSERT_EQ(runs(made.id).size(), 1U);
  EXPECT_EQ(runs(made.id).front().scheduled_ms, to_ms(utc(2026, 11, 16, 9)));
  EXPECT_EQ(made_.all.size(), 1U);
}

TEST_F(SchedulerTest, AProcessThatDiesAfterTheSessionWasMadeLeavesOneSession) {
  const auto made = make(spec(daily()));
  auto one = process("one");
  one->starter.hold(false, true);
  go_to(utc(2026, 11, 16, 9, 1));
  begin_pass(*one);
  one.reset();
  EXPECT_EQ(made_.all.size(), 1U);
  const auto two = process("two");  // another: when the first is taken for dead
  pass(*two);
  EXPECT_TRUE(runs(made.id).empty());
  clock_.pass(minutes(3));
  pass(*two);
  ASSERT_EQ(runs(made.id).size(), 1U);
  EXPECT_EQ(made_.all.size(), 1U);
  EXPECT_EQ(made_.asked, 2U);
  EXPECT_EQ(runs(made.id).front().session, made_.all.begin()->first);
}

TEST_F(SchedulerTest, ARunThatIsUnderWayIsNotStartedAgain) {
  make(spec(daily()));
  const auto one = process(), two = process("two");
  one->starter.hold(true, false);
  go_to(utc(2026, 11, 16, 9, 1));
  begin_pass(*one);
  begin_pass(*one);
  clock_.pass(minutes(1));
  begin_pass(*one);
  begin_pass(*two);
  EXPECT_EQ(made_.asked, 1U);
}

TEST_F(SchedulerTest, MissedTimesAreRecordedAndNotRun) {
  const auto made = make(spec(daily("0 * * * *")));
  const auto one = process();
  at(utc(2026, 11, 16, 12, 30), *one);
  EXPECT_TRUE(made_.all.empty());
  const auto missed = misses(made.id);
  ASSERT_EQ(missed.size(), 1U);
  EXPECT_EQ(missed.front().first_ms, to_ms(utc(2026, 11, 16, 9)));
  EXPECT_EQ(missed.front().last_ms, to_ms(utc(2026, 11, 16, 12)));
  EXPECT_EQ(missed.front().ticks, 4);
  at(utc(2026, 11, 16, 13, 1), *one);
  EXPECT_EQ(scheduled(made.id), (Times{to_ms(utc(2026, 11, 16, 13))}));
}

TEST_F(SchedulerTest, ALittleLateIsNotMissed) {
  const auto made = make(spec(daily("* * * * *")));
  const auto one = process();
  // A process that was away for two minutes runs them one after the other.
  go_to(utc(2026, 11, 16, 8, 33, 10));
  for (int i = 0; i < 4; ++i) pass(*one);
  EXPECT_EQ(scheduled(made.id).size(), 3U);
  EXPECT_TRUE(misses(made.id).empty());
}

TEST_F(SchedulerTest, WhoeverWantsItGetsTheLastMissedTimeOnce) {
  Schedule wanted = daily("0 * * * *");
  wanted.missed = Missed::kRunOnce;
  const auto made = make(spec(wanted));
  const auto one = process();
  at(utc(2026, 11, 16, 12, 30), *one);
  EXPECT_EQ(scheduled(made.id), (Times{to_ms(utc(2026, 11, 16, 12))}));
  ASSERT_EQ(misses(made.id).size(), 1U);
  EXPECT_EQ(misses(made.id).front().ticks, 3);
  at(utc(2026, 11, 16, 12, 31), *one);
  EXPECT_EQ(scheduled(made.id).size(), 1U);
  // One that is in time makes up for those before.
  at(utc(2026, 11, 16, 15, 1), *one);
  at(utc(2026, 11, 16, 15, 1), *one);
  EXPECT_EQ(scheduled(made.id),
            (Times{to_ms(utc(2026, 11, 16, 12)), to_ms(utc(2026, 11, 16, 15))}));
}

TEST_F(SchedulerTest, WhatIsTooLongAgoIsNotMadeUpFor) {
  Schedule wanted = daily();
  wanted.missed = Missed::kRunOnce;
  wanted.late_seconds = 1'800;
  const auto made = make(spec(wanted));
  const auto one = process();
  at(utc(2026, 11, 16, 9, 30, 1), *one);
  EXPECT_TRUE(made_.all.empty());
  EXPECT_EQ(misses(made.id).size(), 1U);
  at(utc(2026, 11, 17, 9, 29, 59), *one);
  EXPECT_EQ(scheduled(made.id), (Times{to_ms(utc(2026, 11, 17, 9))}));
}

TEST_F(SchedulerTest, AYearOfMissedMinutesIsOneRecord) {
  const auto made = make(spec(daily("* * * * *")));
  const auto one = process();
  at(utc(2027, 11, 16, 9, 0, 30), *one);
  ASSERT_EQ(misses(made.id).size(), 1U);
  EXPECT_EQ(misses(made.id).front().ticks, 1'000);
  EXPECT_EQ(misses(made.id).front().last_ms, to_ms(utc(2027, 11, 16, 8, 57)));
}

TEST_F(SchedulerTest, RestingSuppressesTheScheduleOnly) {
  const auto made = make(spec(daily()));
  const auto one = process();
  run(deployments_.pause("p", made.id)).value();
  at(utc(2026, 11, 16, 9, 1), *one);
  EXPECT_TRUE(made_.all.empty());
  const auto by_hand = run(one->scheduler.run_now("p", made.id));
  ASSERT_TRUE(by_hand) << by_hand.error().describe();
  EXPECT_FALSE(by_hand->session.empty());
  EXPECT_EQ(by_hand->scheduled_ms, std::nullopt);
  EXPECT_EQ(find(made.id).last_run_ms, std::nullopt);
  // Nothing is made up for, and nothing was missed.
  run(deployments_.unpause("p", made.id)).value();
  at(utc(2026, 11, 16, 9, 2), *one);
  EXPECT_TRUE(scheduled(made.id).empty());
  EXPECT_TRUE(misses(made.id).empty());
  at(utc(2026, 11, 17, 9, 1), *one);
  EXPECT_EQ(scheduled(made.id).size(), 1U);
}

TEST_F(SchedulerTest, AnErrorThatStaysStopsTheSchedule) {
  const auto made = make(spec(daily("* * * * *")));
  const auto one = process();
  one->starter.answer = [](const RunOrder&) -> FakeStarter::Outcome {
    return RunError{.type = "agent_archived_error", .message = "the agent is archived"};
  };
  clock_.pass(seconds(70));
  for (int i = 0; i < 3; ++i) {
    pass(*one);
    clock_.pass(minutes(1));
  }
  ASSERT_EQ(runs(made.id).size(), 1U);
  EXPECT_EQ(runs(made.id).front().error->type, "agent_archived_error");
  EXPECT_EQ(runs(made.id).front().error->message, "the agent is archived");
  EXPECT_TRUE(runs(made.id).front().session.empty());
  EXPECT_EQ(find(made.id).paused, "agent_archived_error");
  one->starter.answer = nullptr;
  run(deployments_.unpause("p", made.id)).value();
  clock_.pass(seconds(70));
  pass(*one);
  EXPECT_EQ(runs(made.id).size(), 2U);
}

TEST_F(SchedulerTest, AnErrorThatPassesDoesNotNorDoesARunByHand) {
  const auto made = make(spec(daily("* * * * *")));
  const auto one = process();
  std::string type = "session_rate_limited_error";
  one->starter.answer = [&](const RunOrder&) -> FakeStarter::Outcome {
    return RunError{.type = type, .message = "no"};
  };
  clock_.pass(seconds(70));
  pass(*one);
  type = "session_creation_rejected_error";
  clock_.pass(minutes(1));
  pass(*one);
  type = "environment_archived_error";
  const auto by_hand = run(one->scheduler.run_now("p", made.id));
  ASSERT_TRUE(by_hand);
  EXPECT_EQ(by_hand->error->type, type);
  EXPECT_EQ(runs(made.id).size(), 3U);
  EXPECT_EQ(find(made.id).paused, std::nullopt);
}

TEST(RunErrors, OnlyKnownTypesAreWritten) {
  EXPECT_TRUE(is_run_error("mcp_egress_blocked_error"));
  EXPECT_TRUE(is_run_error("session_rate_limited_error"));
  EXPECT_FALSE(is_run_error("mcp_egress_blocked"));
  EXPECT_FALSE(pauses_schedule("session_creation_rejected_error"));
  EXPECT_TRUE(pauses_schedule("unknown_error"));
}

TEST_F(SchedulerTest, WhatCannotBeTriedIsTriedAgainUntilItIsGivenUp) {
  const auto made = make(spec(daily()));
  const auto one = process();
  one->starter.answer = [](const RunOrder&) -> FakeStarter::Outcome {
    return make_error(ErrorCode::kUnavailable, "make session", "the store is full");
  };
  at(utc(2026, 11, 16, 9, 1), *one);
  EXPECT_TRUE(runs(made.id).empty());
  pass(*one);
  EXPECT_EQ(made_.asked, 1U);  // not without a pause
  for (int i = 0; i < 12; ++i) {
    clock_.pass(minutes(1));
    pass(*one);
  }
  EXPECT_GE(made_.asked, 8U);
  EXPECT_TRUE(runs(made.id).empty());
  one->starter.answer = nullptr;
  clock_.pass(minutes(1));
  pass(*one);
  ASSERT_EQ(runs(made.id).size(), 1U);
  EXPECT_EQ(runs(made.id).front().error, std::nullopt);

  one->starter.answer = [](const RunOrder&) -> FakeStarter::Outcome {
    return make_error(ErrorCode::kUnavailable, "make session", "the store is full");
  };
  go_to(utc(2026, 11, 17, 9, 1));
  for (int i = 0; i < 20; ++i) {
    pass(*one);
    clock_.pass(minutes(1));
  }
  ASSERT_EQ(runs(made.id).size(), 2U);
  EXPECT_EQ(runs(made.id).front().error->type, "unknown_error");
  EXPECT_EQ(find(made.id).paused, "unknown_error");
}

TEST_F(SchedulerTest, AClockThatJumpsAheadAndBackRunsNothingTwiceAndLosesNothing) {
  const auto made = make(spec(daily("0 * * * *")));
  const auto one = process();
  at(utc(2026, 11, 16, 8, 40), *one);
  clock_.set(utc(2026, 11, 16, 11, 1));  // over 09:00 and 10:00, on 11:00
  pass(*one);
  pass(*one);
  EXPECT_EQ(scheduled(made.id), (Times{to_ms(utc(2026, 11, 16, 11))}));
  ASSERT_EQ(misses(made.id).size(), 1U);
  EXPECT_EQ(misses(made.id).front().ticks, 2);
  clock_.set(utc(2026, 11, 16, 8, 42));  // it was wrong
  pass(*one);
  for (auto now = utc(2026, 11, 16, 8, 45); now <= utc(2026, 11, 16, 12, 5); now += minutes(1))
    at(now, *one);
  EXPECT_EQ(scheduled(made.id),
            (Times{to_ms(utc(2026, 11, 16, 9)), to_ms(utc(2026, 11, 16, 10)),
                   to_ms(utc(2026, 11, 16, 11)), to_ms(utc(2026, 11, 16, 12))}));
  EXPECT_EQ(made_.all.size(), 4U);
}

TEST_F(SchedulerTest, AClockThatWentBackOverATickDoesNotRunItAgain) {
  const auto made = make(spec(daily()));
  const auto one = process();
  at(utc(2026, 11, 16, 9, 1), *one);
  clock_.set(utc(2026, 11, 16, 8, 50));
  pass(*one);
  for (auto now = utc(2026, 11, 16, 8, 51); now < utc(2026, 11, 16, 9, 10); now += minutes(1))
    at(now, *one);
  EXPECT_EQ(scheduled(made.id).size(), 1U);
  EXPECT_EQ(find(made.id).last_run_ms, to_ms(utc(2026, 11, 16, 9, 1)));
  at(utc(2026, 11, 17, 9, 1), *one);
  EXPECT_EQ(scheduled(made.id).size(), 2U);
}

TEST_F(SchedulerTest, AClockThatWasSetBackWhileNobodyRanIsNoticed) {
  const auto made = make(spec(daily()));
  auto one = process();
  clock_.set(utc(2030, 1, 1, 12));
  pass(*one);
  one.reset();
  clock_.set(utc(2026, 11, 16, 8, 31));
  one = process();
  at(utc(2026, 11, 16, 8, 32), *one);
  at(utc(2026, 11, 16, 9, 1), *one);
  EXPECT_EQ(scheduled(made.id), (Times{to_ms(utc(2026, 11, 16, 9))}));
}

TEST_F(SchedulerTest, ARunThatWasLeftBeforeTheClockWentBackIsTakenUp) {
  const auto made = make(spec(daily()));
  auto one = process();
  one->starter.hold(true, false);
  go_to(utc(2026, 11, 16, 9, 1));
  begin_pass(*one);
  one.reset();
  clock_.set(utc(2026, 11, 16, 7));
  const auto two = process("two");
  pass(*two);
  EXPECT_EQ(runs(made.id).size(), 1U);
}

TEST_F(SchedulerTest, AChangeOfTheScheduleCountsFromThenOn) {
  const auto made = make(spec(daily()));
  const auto one = process();
  run(deployments_.update("p", made.id, {.schedule = daily("0 10 * * *")})).value();
  at(utc(2026, 11, 16, 9, 1), *one);
  EXPECT_TRUE(scheduled(made.id).empty());
  run(deployments_.update("p", made.id, {.name = "still at ten"})).value();
  at(utc(2026, 11, 16, 10, 1), *one);
  EXPECT_EQ(scheduled(made.id), (Times{to_ms(utc(2026, 11, 16, 10))}));
  run(deployments_.update("p", made.id, {.schedule = std::optional<Schedule>()})).value();
  at(utc(2026, 11, 17, 10, 1), *one);
  run(deployments_.update("p", made.id, {.schedule = daily("0 11 * * *")})).value();
  run(deployments_.archive("p", made.id)).value();
  at(utc(2026, 11, 17, 11, 1), *one);
  EXPECT_EQ(scheduled(made.id).size(), 1U);
}

TEST_F(SchedulerTest, AZoneThatIsGoneStopsItsScheduleAndNoOther) {
  const auto broken = make(spec(daily()));
  const auto made = make(spec(daily()));
  run(store_->write({{.sql = "UPDATE deployments SET timezone = 'Europe/Atlantis' WHERE id = $1",
                      .values = {broken.id}}}))
      .value();
  const auto one = process();
  at(utc(2026, 11, 16, 9, 1), *one);
  EXPECT_EQ(scheduled(made.id).size(), 1U);
  ASSERT_EQ(runs(broken.id).size(), 1U);
  EXPECT_EQ(runs(broken.id).front().error->type, "unknown_error");
  EXPECT_NE(runs(broken.id).front().error->message.find("Europe/Atlantis"), std::string::npos);
  EXPECT_EQ(find(broken.id).paused, "unknown_error");
  EXPECT_TRUE(find(broken.id).upcoming_ms.empty());
}

TEST_F(SchedulerTest, RulesOfAZoneThatAreOthersNowCount) {
  std::filesystem::create_directory(directory_ + "/zones");
  const auto copy = [&](const char* from) {
    std::filesystem::copy_file(std::string(kZoneFolder) + "/" + from, directory_ + "/zones/Here",
                               std::filesystem::copy_options::overwrite_existing);
  };
  copy("Etc/GMT-1");
  Zones own(clock_, directory_ + "/zones");
  Deployments deployments(*store_, clock_, own);
  FakeStarter starter(*loop_, made_);
  Scheduler scheduler(*loop_, clock_, *store_, own, deployments, starter, {.owner = "one"});
  const auto made = run(deployments.create("p", spec(daily("0 20 * * *", "Here"))));
  ASSERT_TRUE(made) << made.error().describe();
  run(pass_and_settle(scheduler));
  copy("Etc/GMT-3");
  clock_.pass(hours(2));
  run(pass_and_settle(scheduler));
  go_to(utc(2026, 11, 16, 17, 1));
  run(pass_and_settle(scheduler));
  EXPECT_EQ(scheduled(made->id), (Times{to_ms(utc(2026, 11, 16, 17))}));
}

TEST_F(SchedulerTest, ManyThatAreDueAreAllStarted) {
  for (int i = 0; i < 110; ++i) make(spec(daily()));
  const auto one = process();
  go_to(utc(2026, 11, 16, 9, 1));
  for (int i = 0; i < 4; ++i) pass(*one);
  EXPECT_EQ(made_.all.size(), 110U);
}

// As it runs in a process, on a loop: a change wakes it.
TEST_F(SchedulerTest, AChangeWakesIt) {
  const auto one = process();
  one->starter.answer = [&](const RunOrder& order) -> FakeStarter::Outcome {
    made_.all.try_emplace(order.session.text(), order.run);
    loop_->stop();
    return order.session;
  };
  linux::TaskGroup group(*loop_);
  group.spawn(one->scheduler.keep_going());
  const auto change = [](Deployments& all, SetClock& clock) -> Task<> {
    const auto made = co_await all.create("p", spec(daily("* * * * *")));
    EXPECT_TRUE(made);
    clock.pass(minutes(2));
    const auto changed = co_await all.update("p", made->id, {.name = "other"});
    EXPECT_TRUE(changed);
  };
  group.spawn(change(deployments_, clock_));
  loop_->run();
  EXPECT_EQ(made_.all.size(), 1U);
}

}  // namespace
}  // namespace pons::schedule
