#include <cstdlib>

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

// A failing seed replays with PONS_SIMULATION_SEED=N PONS_SIMULATION_SEEDS=1.
TEST_F(Simulation, WhateverFailsEachSessionFinishesAndNothingHappensTwice) {
  int crashes = 0;
  int commands = 0;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + seeds(); ++seed) {
    const SimulationOutcome outcome = simulate({.seed = seed, .rival = seed % 3 == 0});
    crashes += outcome.crashes;
    commands += outcome.commands;
    EXPECT_TRUE(outcome.finished) << "seed " << seed;
    for (const std::string& violation : outcome.violations)
      ADD_FAILURE() << "seed " << seed << ": " << violation;
    if (HasFailure()) break;
  }
  RecordProperty("crashes", crashes);
  RecordProperty("commands", commands);
  if (seeds() >= 100) EXPECT_GT(crashes, 50);
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

TEST_F(Simulation, NothingFailsWithoutFaults) {
  const SimulationOutcome outcome = simulate({.seed = 3, .fault = 0});
  EXPECT_TRUE(outcome.finished);
  EXPECT_TRUE(outcome.violations.empty());
  EXPECT_GT(outcome.commands, 0);
}

}  // namespace
}  // namespace pons::session
