#include <array>
#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "pons/base/log.h"
#include "simulation.h"

namespace pons::session {
namespace {

std::uint64_t wanted(const char* name, std::uint64_t otherwise) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  const char* number = std::getenv(name);
  return number == nullptr ? otherwise : std::strtoull(number, nullptr, 10);
}

std::uint64_t seeds() {
  return wanted("PONS_SIMULATION_SEEDS", 500);
}
std::uint64_t first_seed() {
  return wanted("PONS_SIMULATION_SEED", 1);
}

class Simulation : public testing::Test {
 protected:
  // What fails on purpose is not worth a line each.
  Simulation() { configure_log({.level = LogLevel::kError, .descriptor = -1}); }
  ~Simulation() override { configure_log(default_log_settings()); }
};

void note(const std::vector<StoredEvent>& log, std::set<std::string>& met) {
  const StoredEvent* before = nullptr;
  for (const StoredEvent& stored : log) {
    const Event& event = stored.event;
    if (const auto* created = std::get_if<Created>(&event); created && !created->parent.empty())
      met.emplace("agent of an agent");
    if (std::holds_alternative<ContextSummarised>(event)) met.emplace("summary");
    if (const auto* called = std::get_if<ToolCalled>(&event))
      if (called->name.starts_with("memory_") || called->name.starts_with("far_") ||
          called->name == "bash")
        met.insert(called->name);
    if (std::holds_alternative<ServerTrouble>(event)) met.emplace("server trouble");
    if (std::holds_alternative<UserDecision>(event)) met.emplace("decision of a person");
    if (std::holds_alternative<UserAnswer>(event)) met.emplace("answer of a person");
    if (std::holds_alternative<Resumed>(event)) met.emplace("resumed");
    if (const auto* changed = std::get_if<ThreadChanged>(&event)) {
      if (!changed->posted.empty()) met.emplace("posted by a thread");
      if (changed->status == ThreadStatus::kWaits) met.emplace("thread waits");
      if (changed->status == ThreadStatus::kEnded) met.emplace("thread ended");
    }
    if (const auto* graded = std::get_if<OutcomeGraded>(&event))
      met.insert("outcome " + std::string(name_of(graded->verdict)));
    if (std::holds_alternative<UserDecision>(event)) met.emplace("decision");
    if (const auto* access = std::get_if<AccessEnded>(&event))
      met.insert("access " + std::string(name_of(access->outcome)));
    if (std::holds_alternative<UserToolResult>(event)) met.emplace("result from outside");
    if (const auto* answered = std::get_if<ModelAnswered>(&event);
        answered && !answered->redacted.empty())
      met.emplace("redacted");
    if (before && std::holds_alternative<ToolCalled>(event) &&
        std::holds_alternative<ToolCalled>(before->event))
      met.emplace("two at once");
    if (const auto* ended = std::get_if<TurnEnded>(&event)) met.emplace(name_of(ended->reason));
    if (const auto* ended = std::get_if<ToolEnded>(&event))
      met.insert("tool " + std::string(name_of(ended->outcome)));
    if (const auto* failed = std::get_if<ModelFailed>(&event))
      met.insert("trouble " + std::string(name_of(failed->trouble)));
    before = &stored;
  }
}

// A failing seed replays with PONS_SIMULATION_SEED=N PONS_SIMULATION_SEEDS=1.
TEST_F(Simulation, WhateverFailsEachSessionFinishesAndNothingHappensTwice) {
  int crashes = 0;
  int handed_over = 0;
  int moves = 0;
  std::set<std::string> met;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + seeds(); ++seed) {
    const SimulationOutcome outcome = simulate({.seed = seed, .rival = seed % 3 == 0});
    crashes += outcome.crashes;
    handed_over += outcome.handed_over;
    moves += outcome.moves;
    for (const auto& log : outcome.logs) note(log, met);
    EXPECT_TRUE(outcome.finished) << "seed " << seed;
    for (const std::string& violation : outcome.violations)
      ADD_FAILURE() << "seed " << seed << ": " << violation;
    if (HasFailure()) break;
  }
  if (seeds() < 500) return;
  EXPECT_GT(crashes, 250);
  EXPECT_GT(handed_over, 100) << "to the node that has the session";
  EXPECT_GT(moves, 100) << "of sessions to another node";
  // A world in which nothing happens proves nothing.
  for (const char* wanted : {"agent of an agent",
                             "summary",
                             "answer of a person",
                             "resumed",
                             "redacted",
                             "two at once",
                             "end_turn",
                             "interrupted",
                             "budget_reached",
                             "call_limit",
                             "refusal",
                             "retries_exhausted",
                             "model_failed",
                             "tool done",
                             "tool refused",
                             "tool interrupted",
                             "trouble passing",
                             "trouble too_long",
                             "trouble interrupted",
                             "bash",
                             "memory_write",
                             "far_do",
                             "far_ask",
                             "server trouble",
                             "decision of a person",
                             "posted by a thread",
                             "thread waits",
                             "thread ended",
                             "outcome satisfied",
                             "outcome needs_revision",
                             "outcome failed",
                             "decision",
                             "access allowed",
                             "access denied",
                             "access withdrawn",
                             "result from outside"})
    EXPECT_TRUE(met.contains(wanted)) << wanted << " never happened";
}

// Worlds in which something was wrong once.
TEST_F(Simulation, WhatWasMendedStaysMended) {
  // A session left its thread behind, which made the machine again. And a world ended while a wish
  // was on its way to the node that had its session: people did not see it any more.
  for (const std::uint64_t seed : {1431, 1467, 5202}) {
    const SimulationOutcome outcome = simulate({.seed = seed, .rival = true});
    EXPECT_TRUE(outcome.finished) << "seed " << seed;
    for (const std::string& violation : outcome.violations)
      ADD_FAILURE() << "seed " << seed << ": " << violation;
  }
}

// One session, alone or with a second node, so that all its waits can be had one after the other.
SimulationSettings small_world(std::uint64_t seed) {
  return {
      .seed = seed, .sessions = 1, .messages = 1, .steps = 3, .fault = 0, .rival = seed % 3 == 2};
}

std::string name_of(const SimulationSettings& settings) {
  const OneFault& one = settings.one_fault.value_or(OneFault{});
  const auto fault = static_cast<int>(one.fault);
  return fmt::format(
      "seed {}, fault {} at wait {} (alone: PONS_SIMULATION_SEED={} PONS_SIMULATION_WAIT={} "
      "PONS_SIMULATION_FAULT={})",
      settings.seed, fault, one.wait, settings.seed, one.wait, fault);
}

class OneFaultAtATime : public Simulation {
 protected:
  void run(const SimulationSettings& settings) {
    const SimulationOutcome outcome = simulate(settings);
    ++runs_;
    crashes_ += outcome.crashes;
    moves_ += outcome.moves;
    for (const auto& log : outcome.logs) note(log, met_);
    EXPECT_EQ(outcome.faults, settings.one_fault ? 1 : 0)
        << name_of(settings) << ": there are " << outcome.waits << " waits";
    EXPECT_TRUE(outcome.finished) << name_of(settings);
    for (const std::string& violation : outcome.violations)
      ADD_FAILURE() << name_of(settings) << ": " << violation;
    waits_ = outcome.waits;
  }
  // Without a fault first: up to the wait that has one, the run with it is the same.
  enum class Faults : std::uint8_t {
    kAll,
    kInTurn,  // both deaths at each wait, and one of the others
  };
  static constexpr std::size_t kDeaths = 2;
  void run_all(SimulationSettings settings, Faults how) {
    run(settings);
    const int waits = waits_;
    for (int wait = 1; wait <= waits; ++wait)
      for (std::size_t fault = 0; fault < kFaults && !HasFailure(); ++fault) {
        if (how == Faults::kInTurn && fault >= kDeaths &&
            fault != kDeaths + static_cast<std::size_t>(wait) % (kFaults - kDeaths))
          continue;
        settings.one_fault = OneFault{.wait = wait, .fault = static_cast<Fault>(fault)};
        run(settings);
      }
  }

  int waits_ = 0;  // of the last run
  int runs_ = 0;
  int crashes_ = 0;
  int moves_ = 0;
  std::set<std::string> met_;
};

// Worlds in which much happens: a machine, threads that wait for people, a move, a summary. Then
// PONS_SIMULATION_WORLDS others.
constexpr std::array<std::uint64_t, 4> kWorlds = {1, 55, 86, 89};

TEST_F(OneFaultAtATime, AtEveryWaitOfASmallWorldBreaksNothing) {
  if (const auto wait = wanted("PONS_SIMULATION_WAIT", 0); wait > 0) {
    SimulationSettings settings = small_world(first_seed());
    settings.one_fault =
        OneFault{.wait = static_cast<int>(wait),
                 .fault = static_cast<Fault>(wanted("PONS_SIMULATION_FAULT", 0) % kFaults)};
    return run(settings);
  }
  for (const std::uint64_t seed : kWorlds) run_all(small_world(seed), Faults::kInTurn);
  for (std::uint64_t seed = 1; seed <= wanted("PONS_SIMULATION_WORLDS", 0) && !HasFailure(); ++seed)
    run_all(small_world(seed), Faults::kAll);
  RecordProperty("runs", runs_);
  EXPECT_GT(crashes_, runs_ / 5) << "of two faults in seven the process dies";
  EXPECT_GT(moves_, 0);
  for (const char* what :
       {"agent of an agent", "thread waits", "posted by a thread", "thread ended", "bash",
        "memory_write", "far_do", "two at once", "summary", "tool done", "tool interrupted",
        "decision of a person", "answer of a person", "resumed", "end_turn", "interrupted"})
    EXPECT_TRUE(met_.contains(what)) << what << " never happened";
}

TEST_F(OneFaultAtATime, ACellThatForgetsItsCallsIsNoticed) {
  bool is_noticed = false;
  for (std::uint64_t seed = 1; seed <= 12 && !is_noticed; ++seed) {
    SimulationSettings settings = small_world(seed);
    settings.forget_calls = true;
    const int waits = simulate(settings).waits;
    for (int wait = 1; wait <= waits && !is_noticed; ++wait) {
      settings.one_fault = OneFault{.wait = wait, .fault = Fault::kDiesAfter};
      is_noticed = !simulate(settings).violations.empty();
    }
  }
  EXPECT_TRUE(is_noticed) << "commands that run twice would not be noticed";
}

TEST_F(Simulation, ACellThatForgetsItsCallsIsNoticed) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    if (!simulate({.seed = seed, .fault = 0.1, .forget_calls = true}).violations.empty()) return;
  FAIL() << "commands that run twice would not be noticed";
}

TEST_F(Simulation, TheSameSeedIsTheSameRun) {
  const SimulationOutcome first = simulate({.seed = 7, .fault = 0.1});
  const SimulationOutcome second = simulate({.seed = 7, .fault = 0.1});
  EXPECT_EQ(first.logs, second.logs);
  EXPECT_EQ(first.crashes, second.crashes);
}

TEST_F(Simulation, WithoutFaultsNothingFailsAndNoSandboxIsLeft) {
  int commands = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const SimulationOutcome outcome = simulate({.seed = seed, .fault = 0});
    EXPECT_TRUE(outcome.finished);
    EXPECT_TRUE(outcome.violations.empty());
    EXPECT_EQ(outcome.left_sandboxes, 0) << "seed " << seed;
    commands += outcome.commands;
  }
  EXPECT_GT(commands, 100);
}

}  // namespace
}  // namespace pons::session
