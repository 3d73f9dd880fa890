#include "budget_share.h"

#include <gtest/gtest.h>

#include "story.h"

namespace pons::session {
namespace {

std::vector<std::pair<std::string, std::string>> spawns(std::size_t count, int percent = 0) {
  const std::string more = percent == 0 ? "" : R"(,"budget_percent":)" + std::to_string(percent);
  return {count, {"spawn_agent", R"({"task":"t")" + more + "}"}};
}

std::size_t refused(const Story& story) {
  std::size_t count = 0;
  for (const ToolEnded& ended : story.all_of<ToolEnded>())
    count += ended.outcome == ToolOutcome::kRefused ? 1 : 0;
  return count;
}

TEST(BudgetShare, AgentsThatWorkAtTheSameTimeAreLimitedForEveryAgent) {
  for (const AgentSpec& agent :
       {AgentSpec{.model = "m"}, AgentSpec{.model = "m", .budget_tokens = 1'000'000'000}}) {
    Story story(agent);
    story.say("hi");
    story.call(spawns(40));
    EXPECT_EQ(refused(story), 40 - kThreadsMax);
  }
}

TEST(BudgetShare, WhereNothingIsLeftNoAgentIsMade) {
  for (const bool is_money : {false, true}) {
    Story story(
        {.model = "m", .budget_nano = is_money ? 100 : 0, .budget_tokens = is_money ? 0 : 100});
    story.say("hi");
    story.answer(
        R"([{"type":"tool_use","id":"a","name":"spawn_agent","input":{"task":"t"}},{"type":"tool_use","id":"b","name":"spawn_agent","input":{"task":"t"}}])",
        "tool_use", {.output = is_money ? 0 : 150, .cost_nano = is_money ? 150 : 0});
    EXPECT_EQ(refused(story), 2U);
    EXPECT_EQ(story.state.ended, EndReason::kBudgetReached);
  }
}

TEST(BudgetShare, AllOfAnAnswerGetTogetherNoMoreThanThereIs) {
  Story story({.model = "m", .budget_tokens = 1'000});
  story.say("hi");
  story.call(spawns(10, 60));
  std::int64_t sum = 0;
  std::size_t begun = 0;
  for (const Call& call : story.state.calls) {
    if (call.ended) continue;
    ++begun;
    sum += share_of(story.state, call, *read_spawn(call.input)).tokens;
  }
  EXPECT_LE(sum, 1'000);
  EXPECT_GT(begun, 3U);
  EXPECT_EQ(begun + refused(story), 10U);
  EXPECT_GT(refused(story), 0U) << "the last ones would get nothing";
}

TEST(BudgetShare, WhatOneHasTakenWholeIsNotGivenAgain) {
  Story story({.model = "m", .budget_nano = 800});
  story.say("hi");
  story.call(spawns(2, 100));
  EXPECT_EQ(refused(story), 1U);
  EXPECT_EQ(
      share_of(story.state, story.state.calls[0], *read_spawn(story.state.calls[0].input)).nano,
      800);
}

}  // namespace
}  // namespace pons::session
