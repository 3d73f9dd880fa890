#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

#include "pons/base/log.h"
#include "simulation.h"

namespace pons::session {
namespace {

std::uint64_t seeds() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  const char* wanted = std::getenv("PONS_SIMULATION_SEEDS");
  return wanted == nullptr ? 500 : std::strtoull(wanted, nullptr, 10);
}

std::uint64_t first_seed() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  const char* wanted = std::getenv("PONS_SIMULATION_SEED");
  return wanted == nullptr ? 1 : std::strtoull(wanted, nullptr, 10);
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
