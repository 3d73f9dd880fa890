#include "call_cost.h"

#include <gtest/gtest.h>

namespace pons::gateway {
namespace {

using models::Protocol;

ModelRequest request_of(Protocol protocol, std::string body) {
  ModelRequest request{.protocol = protocol, .body = std::move(body)};
  request.body_bytes = request.body.size();
  auto facts = models::read_facts(protocol, request.body);
  EXPECT_TRUE(facts) << facts.error().describe();
  if (facts) request.facts = std::move(*facts);
  return request;
}

const budget::Price* price_of(std::string_view model) {
  static const budget::Prices kPrices = *budget::Prices::load();
  return kPrices.find(model).value();
}

models::Usage most(const ModelRequest& request, std::string_view model) {
  return CallCost(request, model, price_of(model), CallCost::Maker::kProvider).most();
}

double dollars(const ModelRequest& request, std::string_view model) {
  return static_cast<double>(budget::cost(*price_of(model), most(request, model))) / 1e9;
}

// A screenshot of four megabytes, in Base64.
std::string screenshot() {
  return R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":")" +
         std::string(5'600'000, 'A') + R"("}})";
}

std::string asking(const std::string& model, const std::string& content,
                   const std::string& more = {}) {
  return R"({"model":")" + model + R"(","max_tokens":1000,"messages":[{"role":"user","content":[)" +
         content + "]}]" + more + "}";
}

TEST(CallCostTest, AScreenshotIsReservedAsAPictureAndNotAsText) {
  const auto one = request_of(Protocol::kMessages, asking("m", screenshot()));
  EXPECT_LT(dollars(one, "claude-opus-4-5"), 0.15);
  EXPECT_GT(most(one, "claude-opus-4-5").prompt(), 5'000) << "more than any service counts";
  std::string many = screenshot();
  for (int i = 0; i < 3; ++i) many += "," + screenshot();
  EXPECT_LT(dollars(request_of(Protocol::kMessages, asking("m", many)), "claude-opus-4-5"), 0.5);
}

TEST(CallCostTest, WhatDoesNotFitTheModelIsNotReserved) {
  const std::string text = R"({"type":"text","text":")" + std::string(3'000'000, 'x') + R"("})";
  const auto large = request_of(Protocol::kMessages, asking("m", text));
  EXPECT_EQ(most(large, "claude-opus-4-5").prompt(), 200'000);
  EXPECT_EQ(most(large, "gpt-5").prompt(), 272'000);
  // Its price for more than its window says that there is a larger one.
  EXPECT_GT(most(large, "claude-sonnet-4-5").prompt(), 1'000'000);
  EXPECT_GT(CallCost(large, "m", nullptr, CallCost::Maker::kProvider).most().prompt(), 1'000'000);
  const std::string file =
      R"({"type":"document","source":{"type":"base64","media_type":"application/pdf","data":")" +
      std::string(12'000'000, 'A') + R"("}})";
  EXPECT_EQ(most(request_of(Protocol::kMessages, asking("m", file)), "claude-opus-4-5").prompt(),
            200'000);
}

TEST(CallCostTest, ThePriceOfAnHourIsReservedOnlyForWhoAsksForOne) {
  const auto asked = [&](const std::string& control) {
    return most(
        request_of(Protocol::kMessages,
                   asking("m", R"({"type":"text","text":"hi","cache_control":)" + control + "}")),
        "claude-opus-4-5");
  };
  EXPECT_GT(asked(R"({"type":"ephemeral","ttl":"1h"})").cache_write_hour, 0);
  const models::Usage usual = asked(R"({"type":"ephemeral"})");
  EXPECT_EQ(usual.cache_write_hour, 0);
  EXPECT_GT(usual.cache_write, 0);
  const auto chat = request_of(Protocol::kChat, R"({"model":"m","messages":[]})");
  EXPECT_GT(most(chat, "gpt-5").input, 0) << "nothing is dearer there";
}

TEST(CallCostTest, AnAnswerWithoutALimitIsReservedAsWhatIsAskedForInItsPlace) {
  const auto unlimited = request_of(Protocol::kResponses, R"({"model":"m","input":"hi"})");
  EXPECT_EQ(CallCost(unlimited, "m", nullptr, CallCost::Maker::kProvider).most().output,
            models::kOutputTokensDefault);
  EXPECT_EQ(most(unlimited, "gpt-5").output, 128'000);
  const auto three = request_of(Protocol::kChat, R"({"model":"m","n":3,"max_tokens":10})");
  EXPECT_EQ(most(three, "gpt-5").output, 30);
}

TEST(CallCostTest, AToolOfTheProviderMayFillTheWindow) {
  const auto fetching =
      request_of(Protocol::kMessages,
                 R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],)"
                 R"("tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]})");
  EXPECT_EQ(most(fetching, "claude-opus-4-5").prompt(), 200'000);
}

TEST(CallCostTest, WhatMayHaveBeenThoughtUnseenIsPaidForByTheTimeItTook) {
  const auto cost_of = [](const ModelRequest& request, std::string_view model,
                          CallCost::Maker maker = CallCost::Maker::kProvider) {
    return CallCost(request, model, price_of(model), maker)
        .broken_off({}, 30, std::chrono::seconds(10))
        .output;
  };
  const auto stream = [](const std::string& more) {
    return request_of(Protocol::kChat,
                      R"({"model":"m","stream":true,"max_tokens":5000)" + more + "}");
  };
  EXPECT_EQ(cost_of(stream(""), "gpt-5"), 3'000);
  EXPECT_EQ(cost_of(stream(R"(,"reasoning_effort":"none")"), "gpt-5"), 3'000) << "it may not know";
  EXPECT_EQ(cost_of(stream(""), "gpt-4.1"), models::estimate_tokens(30)) << "it never thinks";
  EXPECT_EQ(cost_of(stream(""), "claude-sonnet-4-5"), models::estimate_tokens(30));
  EXPECT_EQ(cost_of(stream(R"(,"thinking":{"type":"adaptive"})"), "claude-sonnet-4-5"), 3'000);
  EXPECT_EQ(cost_of(request_of(Protocol::kChat, R"({"model":"m","max_tokens":700})"), "gpt-4.1"),
            700)
      << "of an answer that does not stream nothing is seen, and it has a limit";
  EXPECT_EQ(cost_of(stream(""), "gpt-5", CallCost::Maker::kScript), models::estimate_tokens(30));
}

TEST(CallCostTest, APromptThatNobodyCountedIsNotCountedAsTextOfItsPictures) {
  const auto one = request_of(Protocol::kMessages, asking("m", screenshot()));
  const CallCost cost(one, "claude-opus-4-5", price_of("claude-opus-4-5"),
                      CallCost::Maker::kProvider);
  EXPECT_LT(cost.seen({}, 0).input, 3'000);
  EXPECT_EQ(cost.seen({.cache_read = 7}, 0).prompt(), 7) << "the provider has said it";
}

}  // namespace
}  // namespace pons::gateway
