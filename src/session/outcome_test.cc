#include "pons/session/outcome.h"

#include <gmock/gmock.h>

#include "conversation_check.h"
#include "story.h"

namespace pons::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

OutcomeDefined wish(std::int64_t iterations = 3) {
  return {.id = "o", .description = "a tower", .rubric = "it stands", .iterations_max = iterations};
}

struct Work : Story {
  explicit Work(std::int64_t iterations = 3, AgentSpec agent = {.model = "m"})
      : Story(std::move(agent)) {
    add(wish(iterations));
  }
  void grade(Verdict verdict, std::string why = "because") {
    add(OutcomeGraded{.asked = state.asked->seq,
                      .verdict = verdict,
                      .explanation = std::move(why),
                      .usage = {.input = 5}});
  }
  bool is_graded_now() const { return state.asked && state.asked->purpose == Purpose::kGrade; }
};

TEST(Outcome, WorkIsJudgedByItsRubricInAConversationOfItsOwn) {
  Work work;
  EXPECT_THAT(dump_json(expect_valid_request(work.state)), HasSubstr("a tower"));
  work.call({{"sandbox_provision", kTask}});
  work.end_call(0, "bricks");
  work.answer(kHello);
  ASSERT_TRUE(work.is_graded_now());
  const Json request = expect_valid_request(work.state);
  EXPECT_FALSE(request.contains("tools"));
  EXPECT_EQ(request["messages"].size(), 1U);
  const std::string text = dump_json(request["messages"]);
  for (const char* part : {"a tower", "it stands", "bricks", "worker: hello"})
    EXPECT_THAT(text, HasSubstr(part));
  work.grade(Verdict::kSatisfied);
  EXPECT_FALSE(work.state.turn_open);
  EXPECT_FALSE(work.state.outcome);
  EXPECT_EQ(work.state.ended, EndReason::kEndTurn);
  EXPECT_EQ(work.state.usage.input, 5);
}

TEST(Outcome, WhatIsMissingIsDoneUntilItHasBeenTriedOftenEnough) {
  Work work(2);
  work.answer(kHello);
  work.grade(Verdict::kNeedsRevision, "no roof");
  EXPECT_EQ(work.state.outcome->iteration, 1);
  EXPECT_THAT(dump_json(expect_valid_request(work.state)), HasSubstr("no roof"));
  work.answer(kHello);
  ASSERT_TRUE(work.is_graded_now());
  work.grade(Verdict::kNeedsRevision, "no door");
  EXPECT_FALSE(work.state.outcome) << "it is not judged again";
  ASSERT_TRUE(work.state.asked) << "but heard a last time";
  EXPECT_EQ(work.state.asked->purpose, Purpose::kReply);
  work.answer(kHello);
  EXPECT_FALSE(work.state.turn_open);
}

TEST(Outcome, AJudgeThatFailsIsAskedAgainAndNotForEver) {
  Work work;
  work.answer(kHello);
  const Seq first = work.state.asked->seq;
  work.fail(Trouble::kPassing);
  work.add(TimerFired{});
  ASSERT_TRUE(work.is_graded_now());
  EXPECT_NE(work.state.asked->seq, first);
  work.fail(Trouble::kLasting);
  EXPECT_EQ(work.state.ended, EndReason::kModelFailed);
  EXPECT_FALSE(work.state.outcome);
}

TEST(Outcome, AnInterruptGivesItUpAndMoneyTakesItUpAgain) {
  Work stopped;
  stopped.answer(kHello);
  stopped.add(Interrupted{});
  EXPECT_FALSE(stopped.state.turn_open);
  EXPECT_FALSE(stopped.state.outcome);

  Work poor(3, {.model = "m", .budget_tokens = 50});
  poor.answer(kHello, "end_turn", {.input = 60});
  EXPECT_EQ(poor.state.ended, EndReason::kBudgetReached) << "the judge costs money, too";
  ASSERT_TRUE(poor.state.outcome);
  poor.add(AgentChanged{.agent = {.model = "m", .budget_tokens = 5'000}});
  EXPECT_TRUE(poor.is_graded_now());
}

TEST(Outcome, WhoeverSaysSomethingMeanwhileIsReadBeforeItIsJudged) {
  Work work;
  work.say("and paint it");
  work.answer(kHello);
  ASSERT_TRUE(work.state.asked);
  EXPECT_EQ(work.state.asked->purpose, Purpose::kReply);
  work.answer(kHello);
  EXPECT_TRUE(work.is_graded_now());
}

TEST(Outcome, AVerdictIsTheLastObjectOfAnAnswer) {
  const auto grade = read_grade(
      R"(The worker wrote {"result":"satisfied"}, but: {"result":"needs_revision","explanation":"no {roof}"})");
  ASSERT_TRUE(grade) << grade.error().describe();
  EXPECT_EQ(grade->verdict, Verdict::kNeedsRevision);
  EXPECT_EQ(grade->explanation, "no {roof}");
  for (const char* wrong :
       {"", "}", "{", "satisfied", "{}", R"({"result":7})", R"({"result":"perhaps"})",
        R"({"result":"satisfied","explanation":[]})", "{{{{{{}"})
    EXPECT_FALSE(read_grade(wrong)) << wrong;
}

}  // namespace
}  // namespace pons::session
