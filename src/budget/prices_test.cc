#include "pons/budget/prices.h"

#include <gmock/gmock.h>

#include <limits>

namespace pons::budget {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kDollar = 1'000'000'000;

const Prices& table() {
  static const Prices kTable = *Prices::load();
  return kTable;
}

Price price_of(std::string_view json) {
  auto price = Prices::parse_price(json);
  EXPECT_TRUE(price) << price.error().describe();
  return price ? *price : Price{};
}

TEST(Prices, EveryModelOfTheTableCostsSomethingAndSaysSinceWhen) {
  EXPECT_GE(table().all().size(), 60U);
  for (const auto& [name, price] : table().all()) {
    EXPECT_GT(price.tokens.input, 0) << name;
    EXPECT_GT(price.tokens.output, 0) << name;
    EXPECT_GT(price.tokens.cache_read, 0) << name;
    EXPECT_LE(price.tokens.cache_read, price.tokens.input) << name;
    EXPECT_GE(price.tokens.cache_write, price.tokens.input) << name;
    EXPECT_GT(price.context_tokens, 0) << name;
    EXPECT_GT(price.output_tokens_max, 0) << name;
    EXPECT_NE(price.source, "") << name;
    EXPECT_NE(price.date, "") << name;
  }
}

TEST(Prices, AModelIsFoundWithDateAndProviderInItsName) {
  const Price* plain = *table().find("claude-sonnet-4-5");
  EXPECT_EQ(*table().find("claude-sonnet-4-5-20250929"), plain);
  EXPECT_EQ(*table().find("anthropic/claude-sonnet-4-5"), plain);
  EXPECT_EQ(*table().find("openrouter/anthropic/claude-sonnet-4-5-2025-09-29"), plain);
}

TEST(Prices, ASecondOfASandboxCostsNothingUnlessAPriceIsSet) {
  EXPECT_EQ(table().sandbox_second_nano(), 0);
  const auto priced = Prices::load(R"({"sandbox_second": "0.000014"})");
  ASSERT_TRUE(priced);
  EXPECT_EQ(priced->sandbox_second_nano(), 14'000);
  EXPECT_TRUE(priced->find("claude-sonnet-4-5")) << "models cost what they did";
  const auto both =
      Prices::load(R"({"sandbox_second": "1", "models": {"x": {"input": "1", "output": "1"}}})");
  ASSERT_TRUE(both);
  EXPECT_TRUE(both->find("x"));
  for (const char* wrong : {R"({"sandbox_second": 1})", R"({"sandbox_second": "1.1"})",
                            R"({"sandbox_second": "-1"})", R"({"sandbox_second": ""})"}) {
    const auto refused = Prices::load(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().message, HasSubstr("per second"));
  }
}

TEST(Prices, AnUnknownModelIsRefusedAndNeverFree) {
  for (const char* model :
       {"claude-sonnet-4-5-mine", "", "/", "ft:gpt-4o", "claude-sonnet-4-5-19990101",
        "claude-sonnet-4-5/x", "-20250929", "x-2025-99"}) {
    const auto found = table().find(model);
    ASSERT_FALSE(found) << model;
    EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
  }
}

TEST(Prices, AnUnknownModelCostsWhatTheOperatorSays) {
  const auto prices = Prices::load({}, price_of(R"({"input": "10", "output": "50"})"));
  ASSERT_TRUE(prices);
  EXPECT_EQ((*prices->find("nobody-knows"))->tokens.output, 50 * kDollar);
}

TEST(Prices, AnOverrideReplacesTheWholeEntryAndOnlyThat) {
  const auto prices = Prices::load(
      R"({"models": {"gpt-5": {"input": "0.000000001", "output": "0"}, "mine": {"input": "1", "output": "2"}}})");
  ASSERT_TRUE(prices) << prices.error().describe();
  EXPECT_EQ((*prices->find("gpt-5"))->tokens.input, 1);
  EXPECT_EQ((*prices->find("gpt-5"))->tokens.cache_read, 1);
  EXPECT_EQ((*prices->find("gpt-5"))->context_tokens, 0);
  EXPECT_EQ((*prices->find("mine"))->tokens.cache_write_hour, kDollar);
  EXPECT_EQ(**prices->find("gpt-5-mini"), **table().find("gpt-5-mini"));
}

TEST(Prices, EachKindOfTokenCostsItsOwnAndTheSumIsRoundedUp) {
  const Price price = price_of(R"({"input": "3", "output": "15", "cache_read": "0.3",
      "cache_write": "3.75", "cache_write_hour": "6"})");
  const models::Usage usage{.input = 1000,
                            .cache_read = 100,
                            .cache_write = 10,
                            .cache_write_hour = 1,
                            .output = 500,
                            .reasoning = 400};
  EXPECT_EQ(cost(price, usage), 3'000'000 + 30'000 + 37'500 + 6'000 + 7'500'000);
  EXPECT_EQ(cost(price, {}), 0);
  const Price small = price_of(R"({"input": "0.000000001", "output": "0.000000001"})");
  EXPECT_EQ(cost(small, {.input = 1}), 1);
  EXPECT_EQ(cost(small, {.input = 1'000'000, .output = 1}), 2);
}

TEST(Prices, SearchesOfTheProviderCostExtraAndAreNotFreeByOmission) {
  const Price price = price_of(R"({"input": "3", "output": "15"})");
  EXPECT_EQ(cost(price, {.output = 1, .searches = 2}), 15'000 + 20'000'000);
  EXPECT_EQ(cost(price, {.output = 1, .searches = 2}, 600), 6 * 15'000 + 20'000'000);
  const Price own = price_of(R"({"input": "3", "output": "15", "search": "0.0015"})");
  EXPECT_EQ(cost(own, {.searches = 3}), 4'500);
}

TEST(Prices, ALongPromptIsPaidAtItsOwnRateFromTheFirstToken) {
  const Price price = price_of(R"({"input": "1", "output": "1",
      "long": {"above": 100, "input": "2", "output": "4"}})");
  EXPECT_EQ(cost(price, {.input = 60, .cache_read = 40, .output = 1000}), 1'100'000);
  EXPECT_EQ(cost(price, {.input = 60, .cache_read = 41, .output = 1000}), 202'000 + 4'000'000);
}

TEST(Prices, ADearerServiceCostsItsPercentOfEveryTokenRoundedUp) {
  const Price price = *Prices::parse_price(
      R"({"input": "3", "output": "15", "long": {"above": 1000, "input": "6", "output": "30"}})");
  EXPECT_EQ(cost(price, {.input = 10, .output = 2}, 200), 2 * (10 * 3'000 + 2 * 15'000));
  EXPECT_EQ(cost(price, {.input = 2'000, .output = 2}, 110),
            (2'000 * 6'000 + 2 * 30'000) * 11 / 10);
  EXPECT_EQ(
      cost(*Prices::parse_price(R"({"input": "0.001", "output": "0.001"})"), {.input = 1}, 110), 2);
}

TEST(Prices, PromptsBeyondTheStepOfTheLargeWindowsHaveTheirOwnPrice) {
  const auto prices = Prices::load();
  ASSERT_TRUE(prices);
  for (const auto& [name, price] : prices->all()) {
    if (price.provider != "openai" || price.context_tokens != 1'050'000) continue;
    ASSERT_TRUE(price.long_prompt) << name;
    EXPECT_EQ(price.long_prompt->above, 272'000) << name;
    EXPECT_EQ(price.long_prompt->tokens.input, 2 * price.tokens.input) << name;
    EXPECT_EQ(2 * price.long_prompt->tokens.output, 3 * price.tokens.output) << name;
    EXPECT_EQ(price.long_prompt->tokens.cache_read, 2 * price.tokens.cache_read) << name;
  }
  const Price* const gpt = prices->find("gpt-5.4").value();
  EXPECT_EQ(cost(*gpt, {.input = 272'000}), 680'000'000);
  EXPECT_EQ(cost(*gpt, {.input = 300'000, .output = 1'000}), 1'522'500'000);
}

TEST(Prices, WhatAProviderReportsCannotOverflowOrPayBack) {
  const Price dearest = price_of(R"({"input": "100000", "output": "100000"})");
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const std::int64_t all = cost(dearest, {kHuge, kHuge, kHuge, kHuge, kHuge, kHuge});
  EXPECT_EQ(all, 5 * kTokensMax / 1'000'000 * 100'000 * kDollar);
  EXPECT_EQ(cost(dearest, {.input = -5, .output = std::numeric_limits<std::int64_t>::min()}), 0);
}

TEST(Prices, ATableThatSaysTooLittleOrTooMuchIsRefusedByPlace) {
  const auto refusal = [](std::string_view entry) {
    const auto loaded =
        Prices::load(std::string(R"({"models": {"m": )") + std::string(entry) + "}}");
    EXPECT_FALSE(loaded) << entry;
    return loaded ? std::string() : loaded.error().message;
  };
  EXPECT_THAT(refusal(R"({"input": "1"})"), HasSubstr("models.m.output"));
  EXPECT_THAT(refusal(R"({"input": 1, "output": "1"})"), HasSubstr("models.m.input"));
  EXPECT_THAT(refusal(R"({"input": "-1", "output": "1"})"), HasSubstr("decimal text"));
  EXPECT_THAT(refusal(R"({"input": "1.", "output": "1"})"), HasSubstr("decimal text"));
  EXPECT_THAT(refusal(R"({"input": "1.0000000001", "output": "1"})"), HasSubstr("decimal text"));
  EXPECT_THAT(refusal(R"({"input": "1e3", "output": "1"})"), HasSubstr("decimal text"));
  EXPECT_THAT(refusal(R"({"input": "100000.1", "output": "1"})"), HasSubstr("decimal text"));
  EXPECT_THAT(refusal(R"({"input": "1", "output": "1", "otuput": "1"})"), HasSubstr("otuput"));
  EXPECT_THAT(refusal(R"({"input": "1", "output": "1", "long": {"input": "1", "output": "1"}})"),
              HasSubstr("above"));
  EXPECT_THAT(refusal(R"({"input": "1", "output": "1", "context": -1})"), HasSubstr("context"));
  EXPECT_THAT(refusal("[]"), HasSubstr("object"));
  EXPECT_FALSE(Prices::load("{}"));
  EXPECT_FALSE(Prices::load("nonsense"));
}

}  // namespace
}  // namespace pons::budget
