// What questions cost whose answers never came.

#include <algorithm>

#include <gmock/gmock.h>

#include "pons/session/replay.h"
#include "sessions_fixture.h"

namespace pons::session {
namespace {

constexpr Usage kBill{.input = 40, .output = 2, .cost_nano = 7};

class Charges : public SessionsTest {
 protected:
  Charges() { model_.bill = kBill; }
  // Asks a model that says nothing.
  void begin_in_vain(AgentSpec agent = {.model = "m"}) {
    model_.is_silent = true;
    begin(std::move(agent));
    ASSERT_EQ(model_.questions.size(), 1U);
  }
  Usage used(const std::string& id = "s") { return stored(id).summary.usage; }
};

TEST_F(Charges, AnInterruptedQuestionIsPaidOnce) {
  begin_in_vain();
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(5));
  EXPECT_EQ(stored().summary.ended, "interrupted");
  EXPECT_EQ(used(), kBill);
  ASSERT_EQ(all<ModelCharged>().size(), 1U);
  ASSERT_TRUE(run(sessions_.add("s", all<ModelCharged>()[0]))) << "as by a process after this one";
  EXPECT_EQ(all<ModelCharged>().size(), 1U);
  EXPECT_EQ(used(), kBill);
  EXPECT_TRUE(replay(stored().events).empty());
}

TEST_F(Charges, WhatIsNotKnownYetIsAskedForUntilItIs) {
  begin_in_vain();
  model_.unknown_bills = 4;
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(60));
  EXPECT_EQ(model_.unknown_bills, 0);
  EXPECT_EQ(used(), kBill);
}

// Over and over, it would cost the project something and the session nothing.
TEST_F(Charges, ABudgetEndsAlsoInterruptedQuestions) {
  begin_in_vain({.model = "m", .budget_nano = 10});
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(5));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(run(sessions_.add("s", message_of("again", ""))));
    pass(std::chrono::seconds(5));
    ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
    pass(std::chrono::seconds(5));
  }
  EXPECT_EQ(model_.questions.size(), 2U);
  EXPECT_EQ(stored().summary.ended, "budget_reached");
}

TEST_F(Charges, AQuestionThatAProcessDiedOverIsPaidAndAskedAnewAsAnother) {
  Story story;
  story.say("hi");
  ASSERT_TRUE(story.state.asked);
  take_up(story);
  ASSERT_EQ(model_.questions.size(), 1U);
  EXPECT_EQ(stored().summary.ended, "end_turn");
  ASSERT_EQ(all<ModelCharged>().size(), 1U);
  EXPECT_EQ(all<ModelCharged>()[0].question, fmt::format("{}", story.state.asked->seq));
  EXPECT_EQ(model_.bills.size(), 1U) << "what it came to was asked for";
  EXPECT_FALSE(model_.bills.contains(model_.questions[0])) << "and that was another's";
}

TEST_F(Charges, AFailureOfWhichNobodyKnowsTheCostIsPaidLater) {
  model_.script.emplace_back(
      NoAnswer{.trouble = Trouble::kLasting, .message = "it broke off", .unpaid = true});
  ASSERT_TRUE(run(sessions_.create(
      {.id = "s", .project = "p", .agent = {.model = "m"}, .message = message_of("hi", "")})));
  while (model_.questions.empty()) pass(std::chrono::microseconds(100));
  model_.bills[model_.questions[0]] = kBill;
  pass(std::chrono::seconds(5));
  EXPECT_EQ(stored().summary.ended, "model_failed");
  EXPECT_EQ(used(), kBill);
}

TEST_F(Charges, AFailureCountsWithItsTokens) {
  model_.script.emplace_back(
      NoAnswer{.trouble = Trouble::kLasting, .message = "no", .usage = {.input = 120}});
  begin({.model = "m", .budget_tokens = 100});
  EXPECT_EQ(used().input, 120);
  ASSERT_TRUE(run(sessions_.add("s", message_of("again", ""))));
  pass(std::chrono::seconds(5));
  EXPECT_EQ(stored().summary.ended, "budget_reached");
}

TEST_F(Charges, WhoeverWantedAnAgentPaysForItsInterruptedQuestionsToo) {
  model_.call("spawn_agent", R"({"task":"t"})", {.input = 100});
  ASSERT_TRUE(run(sessions_.create(
      {.id = "s", .project = "p", .agent = {.model = "m"}, .message = message_of("hi", "")})));
  while (model_.requests.empty()) pass(std::chrono::milliseconds(1));
  model_.is_silent = true;
  pass(std::chrono::seconds(5));
  ASSERT_EQ(tables_.sessions.size(), 2U);
  model_.unknown_bills = 3;
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(60));
  for (const auto& [id, one] : tables_.sessions)
    if (id != "s") EXPECT_EQ(used(id), kBill);
  EXPECT_EQ(used().input, 100 + kBill.input);
  EXPECT_EQ(used().cost_nano, kBill.cost_nano);
}

// Its question is paid by nobody any more, and whoever wanted the agent goes on.
TEST_F(Charges, NobodyWaitsForTheBillsOfAnAgentThatIsArchived) {
  model_.call("spawn_agent", R"({"task":"t"})");
  ASSERT_TRUE(run(sessions_.create(
      {.id = "s", .project = "p", .agent = {.model = "m"}, .message = message_of("hi", "")})));
  while (model_.requests.empty()) pass(std::chrono::milliseconds(1));
  model_.is_silent = true;
  pass(std::chrono::seconds(5));
  ASSERT_EQ(tables_.sessions.size(), 2U);
  const std::string child = std::ranges::find_if(tables_.sessions, [](const auto& session) {
                              return session.second.summary.parent == "s";
                            })->first;
  model_.unknown_bills = 1'000'000;
  ASSERT_TRUE(run(sessions_.add(child, Interrupted{})));
  pass(std::chrono::seconds(60));
  EXPECT_TRUE(all<ToolEnded>().empty()) << "it waits for the bill";
  model_.is_silent = false;
  model_.text("I see.");
  ASSERT_TRUE(run(sessions_.archive(child, Farewell::kSaid)));
  pass(std::chrono::seconds(60));
  EXPECT_EQ(all<ToolEnded>().size(), 1U);
  EXPECT_EQ(stored().summary.ended, "end_turn");
}

TEST_F(Charges, AForkPaysNothingOfTheOriginal) {
  begin_in_vain();
  const auto copy = run(sessions_.fork("s", 0, "p"));
  ASSERT_TRUE(copy);
  ASSERT_TRUE(run(sessions_.add("s", Interrupted{})));
  pass(std::chrono::seconds(5));
  EXPECT_EQ(used(), kBill);
  EXPECT_TRUE(all<ModelCharged>(copy->id).empty());
  EXPECT_EQ(used(copy->id), Usage{});
}

}  // namespace
}  // namespace pons::session
