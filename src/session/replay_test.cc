#include "pons/session/replay.h"

#include <gtest/gtest.h>

#include "pons/base/log.h"
#include "simulation.h"
#include "story.h"

namespace pons::session {
namespace {

// As the store has it.
std::vector<StoredEvent> read_back(const std::vector<StoredEvent>& events) {
  std::vector<StoredEvent> again;
  for (const StoredEvent& stored : events)
    again.push_back({stored.seq, stored.at_ms,
                     read_event(type_of(stored.event), write_body(stored.event)).value()});
  return again;
}

std::vector<StoredEvent> a_log() {
  Story story;
  story.say("hi");
  story.call({{"sandbox_provision", kTask}});
  story.bind(0, "box");
  story.call({{"sandbox_execute", kRun}, {"rm_rf", "{}"}});
  story.end_call(0);
  story.fail(Trouble::kPassing);
  story.add(TimerFired{});
  story.answer(kHello);
  return story.events;
}

TEST(Replay, ALogOfTodayDoesNotDiverge) {
  EXPECT_TRUE(replay(a_log()).empty());
  EXPECT_TRUE(replay(read_back(a_log())).empty());
  EXPECT_TRUE(replay({}).empty());
}

TEST(Replay, AHundredSessionsOfABadWorldDoNotDiverge) {
  configure_log({.level = LogLevel::kError, .descriptor = -1});
  std::size_t sessions = 0;
  for (std::uint64_t seed = 1; sessions < 100; ++seed)
    for (const auto& log : simulate({.seed = seed, .fault = 0.08}).logs) {
      EXPECT_TRUE(replay(read_back(log)).empty()) << "seed " << seed;
      ++sessions;
    }
  configure_log(default_log_settings());
}

// Each of these is what another decide would have written.
TEST(Replay, ADecisionThatWouldBeAnotherNowIsCaught) {
  const std::vector<StoredEvent> log = a_log();
  int changed = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    std::vector<StoredEvent> edited = log;
    Event& event = edited[i].event;
    if (auto* asked = std::get_if<ModelAsked>(&event))
      asked->digest = "another conversation";
    else if (auto* called = std::get_if<ToolCalled>(&event))
      called->input = R"({"command":"rm"})";
    else if (auto* said = std::get_if<Said>(&event))
      said->text = "something else";
    else if (auto* ended = std::get_if<TurnEnded>(&event))
      ended->reason = EndReason::kCallLimit;
    else if (auto* released = std::get_if<SandboxReleased>(&event))
      released->sandbox = "another";
    else
      continue;
    ++changed;
    const auto found = replay(edited);
    ASSERT_FALSE(found.empty()) << type_of(event);
    EXPECT_EQ(found.front().seq, edited[i].seq);
    EXPECT_NE(found.front().expected, found.front().found);
  }
  EXPECT_GT(changed, 8);
}

TEST(Replay, WhatIsMissingOrTooMuchIsCaught) {
  const std::vector<StoredEvent> log = a_log();
  std::vector<StoredEvent> shorter(log.begin(), log.end() - 1);
  ASSERT_EQ(replay(shorter).size(), 1U);
  EXPECT_EQ(replay(shorter)[0].found, "") << "the end of the turn is to be decided";
  for (std::size_t i = 1; i + 1 < log.size(); ++i) {
    std::vector<StoredEvent> lacking = log;
    lacking.erase(lacking.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(replay(lacking).empty()) << "without " << type_of(log[i].event);
  }
  std::vector<StoredEvent> longer = log;
  longer.push_back({.seq = log.back().seq + 1, .event = Said{.text = "out of nowhere"}});
  EXPECT_EQ(replay(longer).size(), 1U);
  EXPECT_EQ(replay(longer)[0].expected, "");
}

TEST(Replay, ACallThatDidNotSayYetThatItAsksIsTheSameCall) {
  Story story({.model = "m", .tools = {"bash"}, .asks = {"bash"}});
  story.say("hi");
  story.call({{"bash", kRun}});
  auto& called = std::get<ToolCalled>(story.events.back().event);
  ASSERT_TRUE(std::exchange(called.asks, false));
  EXPECT_TRUE(replay(story.events).empty());
  called.input = R"({"command":"rm"})";
  EXPECT_EQ(replay(story.events).size(), 1U);
}

TEST(Replay, ACopyMayEndAnywhereAndGoOnOtherwise) {
  const std::vector<StoredEvent> log = a_log();
  for (std::size_t at = 1; at <= log.size(); ++at) {
    Story story;
    story.events = {log.begin(), log.begin() + static_cast<std::ptrdiff_t>(at)};
    story.state = fold(State{}, story.events);
    story.events.push_back({.seq = story.state.head + 1, .event = Forked{.from = "s"}});
    fold(story.state, story.events.back());
    story.say("go on");
    story.answer(kHello);
    EXPECT_TRUE(replay(story.events).empty()) << at;
  }
}

TEST(Replay, StopsWhenItHasSeenEnough) {
  std::vector<StoredEvent> log = a_log();
  for (StoredEvent& stored : log)
    if (auto* asked = std::get_if<ModelAsked>(&stored.event)) asked->digest = "x";
  EXPECT_GT(replay(log).size(), 2U);
  EXPECT_EQ(replay(log, 2).size(), 2U);
}

}  // namespace
}  // namespace pons::session
