#include "routing.h"

#include <gtest/gtest.h>

#include <set>

#include <fmt/format.h>

namespace pons::gateway {
namespace {

using models::Failing;

Routing routing_of(const char* models) {
  const std::map<std::string, std::string> providers = {
      {"anthropic", R"({"kind":"anthropic","key_env":"A"})"},
      {"openai", R"({"kind":"openai","key_env":["B","C"]})"},
      {"local", R"({"kind":"openai-compatible","url":"http://127.0.0.1:11434/v1"})"}};
  return Routing(read_model_settings(providers, {{"smart", models}}).value());
}

std::vector<std::string> names(const Routing::Line& line) {
  std::vector<std::string> names;
  for (const auto& candidate : line)
    names.push_back(candidate->deployment.provider + "/" + candidate->deployment.model);
  return names;
}

using Names = std::vector<std::string>;

TEST(RoutingTest, DeploymentsAreTriedInTheOrderWritten) {
  Routing routing = routing_of(R"({"try":["anthropic/claude-x","openai/gpt-x","local/llama"]})");
  EXPECT_EQ(names(routing.candidates("smart", "a").value()),
            (Names{"anthropic/claude-x", "openai/gpt-x", "local/llama"}));
}

TEST(RoutingTest, NamesOfKnownProvidersNeedNoEntry) {
  Routing routing = routing_of(R"({"try":["local/llama"]})");
  EXPECT_EQ(names(routing.candidates("claude-opus-4-5", "").value()),
            (Names{"anthropic/claude-opus-4-5"}));
  EXPECT_EQ(names(routing.candidates("local/qwen/qwen3", "").value()), (Names{"local/qwen/qwen3"}));
  const auto unknown = routing.candidates("nonsense", "");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_NE(unknown.error().message.find("smart"), std::string::npos);
}

TEST(RoutingTest, AConversationMeetsTheSameDeploymentAgain) {
  Routing routing = routing_of(
      R"({"order":"by_weight","try":[{"model":"anthropic/a","weight":1},{"model":"openai/b","weight":3}]})");
  int heavy = 0;
  for (int i = 0; i < 1'000; ++i) {
    const std::string session = fmt::format("session-{}", i);
    const auto first = names(routing.candidates(session.empty() ? "" : "smart", session).value());
    EXPECT_EQ(first, names(routing.candidates("smart", session).value()));
    EXPECT_EQ(first.size(), 2U);
    heavy += first.front() == "openai/b" ? 1 : 0;
  }
  EXPECT_GT(heavy, 650);
  EXPECT_LT(heavy, 850);
}

TEST(RoutingTest, WhoMadeAResponseIsRememberedForItsProjectOnly) {
  Routing routing = routing_of(R"({"try":["openai/a","openai/b"]})");
  const auto line = routing.candidates("smart", "").value();
  routing.remember("p", "resp_1", line[1]);
  EXPECT_EQ(routing.maker_of("p", "resp_1"), line[1]);
  EXPECT_EQ(routing.maker_of("q", "resp_1"), nullptr);
  for (int i = 0; i < 10'001; ++i) routing.remember("p", fmt::format("resp_x{}", i), line[0]);
  EXPECT_EQ(routing.maker_of("p", "resp_1"), nullptr);
}

TEST(RoutingTest, WhatClientsAskForTakesNothingFromARoute) {
  Routing routing = routing_of(R"({"try":[{"model":"openai/a","concurrent":3}]})");
  for (int i = 0; i < 2'000; ++i) ASSERT_TRUE(routing.candidates(fmt::format("openai/m{}", i), ""));
  EXPECT_TRUE(routing.candidates("openai/a", ""));
  EXPECT_EQ(routing.candidates("smart", "").value()[0]->deployment.concurrent, 3U);
}

TEST(HealthTest, WhoFailsOftenIsLeftAloneAndThenProbedByOne) {
  Health health;
  TimePoint now{std::chrono::hours(1)};
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(health.may_try(now));
    health.begin();
    health.fail(now);
  }
  EXPECT_FALSE(health.may_try(now));
  now = health.open_until();
  EXPECT_TRUE(health.may_try(now));
  health.begin();
  EXPECT_FALSE(health.may_try(now)) << "a second call while the first finds out";
  health.fail(now);
  EXPECT_FALSE(health.may_try(now));
  now = health.open_until();
  health.begin();
  health.succeed();
  EXPECT_TRUE(health.may_try(now));
  health.begin();
  EXPECT_TRUE(health.may_try(now));
}

TEST(HealthTest, CallsThatFailTogetherCountOnce) {
  Health health;
  const TimePoint now{std::chrono::hours(1)};
  for (int i = 0; i < 50; ++i) health.fail(now);
  EXPECT_LE(health.open_until(), now + std::chrono::seconds(5));
}

TEST(StepTest, EachClassOfFailureHasItsWay) {
  EXPECT_EQ(step_after(Failing::kInvalidRequest, 400, 1), NextStep::kTellClient);
  EXPECT_EQ(step_after(Failing::kContextLength, 400, 1), NextStep::kLargerModel);
  EXPECT_EQ(step_after(Failing::kRateLimit, 429, 1), NextStep::kAnotherKey);
  EXPECT_EQ(step_after(Failing::kAuthentication, 401, 1), NextStep::kAnotherKey);
  EXPECT_EQ(step_after(Failing::kOverloaded, 529, 1), NextStep::kSameAgain);
  EXPECT_EQ(step_after(Failing::kOverloaded, 529, 2), NextStep::kNextInLine);
  EXPECT_EQ(step_after(Failing::kTimeout, 0, 1), NextStep::kNextInLine);
}

TEST(StepTest, PausesGrowAndDiffer) {
  std::set<Duration> seen;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Duration pause = pause_before_retry(1, i * 7'919);
    EXPECT_GE(pause, std::chrono::milliseconds(250));
    EXPECT_LE(pause, std::chrono::milliseconds(500));
    seen.insert(pause);
  }
  EXPECT_GT(seen.size(), 10U);
  EXPECT_GE(pause_before_retry(4, 0), std::chrono::milliseconds(2'000));
}

}  // namespace
}  // namespace pons::gateway
