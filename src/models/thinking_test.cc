#include "pons/models/thinking.h"

#include <gtest/gtest.h>

namespace pons::models {
namespace {

using Kind = ThinkingWish::Kind;

TEST(ThinkingTest, BudgetsBecomeEffortsThatEveryModelTakes) {
  for (const auto& [tokens, effort] :
       {std::pair(1, "low"), std::pair(1'024, "low"), std::pair(2'048, "low"),
        std::pair(8'000, "medium"), std::pair(16'384, "high"), std::pair(31'999, "high"),
        std::pair(100'000, "high")})
    EXPECT_EQ(openai_effort({.kind = Kind::kBudget, .budget_tokens = tokens}, "gpt-5"), effort)
        << tokens;
}

TEST(ThinkingTest, TheHighestEffortsAreToldToThoseThatKnowThem) {
  for (const char* word : {"xhigh", "max"}) {
    const ThinkingWish wish{.kind = Kind::kAdaptive, .effort = word};
    for (const char* model : {"gpt-5.2", "gpt-5.4-mini", "openai/gpt-5.6-sol", "gpt-5.1-codex-max"})
      EXPECT_EQ(openai_effort(wish, model), "xhigh") << model;
    for (const char* model : {"gpt-5", "gpt-5.1-codex", "o3", "deepseek-reasoner"})
      EXPECT_EQ(openai_effort(wish, model), "high") << model;
  }
  EXPECT_EQ(openai_effort({.kind = Kind::kEffort, .effort = "medium"}, "gpt-5"), "medium");
  EXPECT_EQ(openai_effort({.kind = Kind::kOff}, "gpt-5"), "");
  EXPECT_EQ(openai_effort({}, "gpt-5"), "");
}

TEST(ThinkingTest, TheNameOfAModelSaysWhatItKnows) {
  for (const char* model : {"o1", "o4-mini", "gpt-5", "gpt-5.4", "openai/gpt-5-mini"})
    EXPECT_TRUE(wants_newer_limit(model)) << model;
  for (const char* model : {"gpt-4o", "gpt-4.1", "gpt-oss-120b", "olmo", "opus", "llama3"})
    EXPECT_FALSE(wants_newer_limit(model)) << model;
  for (const char* model : {"gpt-5", "o3", "claude-opus-5", "deepseek-reasoner", "anything"})
    EXPECT_TRUE(may_think_unseen(model, false)) << model;
  for (const char* model : {"gpt-4.1", "claude-sonnet-4-5", "anthropic/claude-opus-4-6"}) {
    EXPECT_FALSE(may_think_unseen(model, false)) << model;
    EXPECT_TRUE(may_think_unseen(model, true)) << model;
  }
}

}  // namespace
}  // namespace pons::models
