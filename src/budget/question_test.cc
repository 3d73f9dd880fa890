// What all calls of a question came to, for whoever has not waited for its answer.

#include "budget_fixture.h"

namespace pons::budget {
namespace {

class QuestionTest : public BudgetTest {
 protected:
  QuestionTest() {
    open();
    key_ = add_key({});
  }
  Result<Call> ask(const std::string& question) {
    return book_->begin_call({.node_id = key_,
                              .model = "m",
                              .provider = "p",
                              .question = question,
                              .is_sent = true,
                              .estimate = {.input = 10, .output = 90}});
  }
  void answer(const std::string& question, models::Usage usage) {
    auto call = ask(question);
    ASSERT_TRUE(call) << call.error().describe();
    call->settle(usage, Outcome::kDone);
  }
  QuestionUse use_of(const std::string& question) {
    const auto use = run(book_->end_question(question));
    EXPECT_TRUE(use) << use.error().describe();
    return use.value_or(QuestionUse{});
  }

  std::string key_;
  const std::string one_ = "0123456789abcdef1";
  const std::string two_ = "0123456789abcdef2";
};

TEST_F(QuestionTest, ItsCallsAreAddedUpAndNoOthers) {
  answer(one_, {.input = 10, .output = 1});
  answer(one_, {.input = 20, .cache_read = 5, .output = 2});
  answer(one_ + "z", {.input = 500});
  answer(two_, {.input = 1'000, .output = 100});
  begin(key_)->settle({.input = 7}, Outcome::kDone);
  const QuestionUse use = use_of(one_);
  EXPECT_EQ(use.usage.input, 30);
  EXPECT_EQ(use.usage.cache_read, 5);
  EXPECT_EQ(use.usage.output, 3);
  EXPECT_EQ(use.calls, 2);
  EXPECT_GT(use.cost_nano, 0);
  EXPECT_EQ(use_of(one_).usage.input, 30) << "asked again";
  EXPECT_EQ(use_of("0123456789abcdef9").calls, 0) << "it never got anywhere";
}

TEST_F(QuestionTest, WhileACallIsUnderWayNobodyKnowsAndNoneIsBegunAnyMore) {
  {
    auto call = ask(one_);
    ASSERT_TRUE(call);
    EXPECT_EQ(run(book_->end_question(one_)).error().code, ErrorCode::kConflict);
    EXPECT_EQ(ask(one_).error().code, ErrorCode::kDenied);
    call->progress({.input = 10, .output = 4});
  }
  const QuestionUse use = use_of(one_);
  EXPECT_EQ(use.usage.output, 4) << "whoever left is charged";
  EXPECT_EQ(use.calls, 1);
  EXPECT_EQ(ask(one_).error().code, ErrorCode::kDenied);
  EXPECT_TRUE(ask(two_));
}

TEST_F(QuestionTest, WhatOneProcessHasSettledTheNextKnows) {
  {
    auto call = ask(one_);
    ASSERT_TRUE(call);
    call->progress({.input = 10, .output = 4});
  }
  answer(one_, {.input = 3});
  open();
  EXPECT_EQ(use_of(one_).calls, 2);
  EXPECT_EQ(use_of(one_).usage.input, 13);
}

TEST_F(QuestionTest, AnIdThatIsNoneIsRefused) {
  for (const std::string& id : {std::string("short"), std::string(65, 'a'),
                                std::string("0123456789ABCDEF"), std::string("0123456789abcde%")}) {
    EXPECT_EQ(ask(id).error().code, ErrorCode::kInvalid) << id;
    EXPECT_EQ(run(book_->end_question(id)).error().code, ErrorCode::kInvalid) << id;
  }
}

}  // namespace
}  // namespace pons::budget
