#include "model_metrics.h"

#include <gmock/gmock.h>

namespace pons::gateway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const ModelMetrics& metrics) {
  telemetry::Page page;
  metrics.write(page);
  return page.text();
}

TEST(ModelMetricsTest, TokensAndMoneyAreCountedByModel) {
  ModelMetrics metrics;
  metrics.know_model("large");
  const models::Usage usage{.input = 1,
                            .cache_read = 2,
                            .cache_write = 3,
                            .cache_write_hour = 4,
                            .output = 5,
                            .reasoning = 6};
  for (int i = 0; i < 2; ++i)
    metrics.count({.provider = "mine",
                   .model = "large",
                   .usage = usage,
                   .cost_nano = 1'500'000'000,
                   .outcome = budget::Outcome::kDone});
  const std::string labels = "{provider=\"mine\",model=\"large\"";
  EXPECT_THAT(text_of(metrics),
              AllOf(HasSubstr("pons_model_calls_total" + labels + ",outcome=\"done\"} 2\n"),
                    HasSubstr("pons_model_tokens_total" + labels + ",kind=\"input\"} 2\n"),
                    HasSubstr("pons_model_tokens_total" + labels + ",kind=\"cache_read\"} 4\n"),
                    HasSubstr("pons_model_tokens_total" + labels + ",kind=\"cache_write\"} 14\n"),
                    HasSubstr("pons_model_tokens_total" + labels + ",kind=\"output\"} 10\n"),
                    HasSubstr("pons_model_tokens_total" + labels + ",kind=\"reasoning\"} 12\n"),
                    HasSubstr("pons_model_cost_dollars_total" + labels + "} 3\n")));
}

TEST(ModelMetricsTest, ANameThatAClientMadeUpIsNotShown) {
  ModelMetrics metrics;
  const models::Usage usage{.output = 1};
  metrics.count({.provider = "mine", .model = "sk-a-secret", .usage = usage});
  metrics.count_first_byte({.provider = "mine", .model = "sk-a-secret"}, std::chrono::seconds(1));
  EXPECT_THAT(text_of(metrics), AllOf(HasSubstr("model=\"other\""), Not(HasSubstr("secret"))));
}

TEST(ModelMetricsTest, RefusalsSayWhy) {
  ModelMetrics metrics;
  metrics.count_refusal(ErrorCode::kLimit);
  metrics.count_refusal(ErrorCode::kIo);
  EXPECT_THAT(text_of(metrics),
              AllOf(HasSubstr("pons_model_refusals_total{reason=\"budget\"} 1\n"),
                    HasSubstr("pons_model_refusals_total{reason=\"ledger\"} 1\n")));
}

TEST(ModelMetricsTest, ADeploymentThatIsLeftAloneIsShownAsThat) {
  ModelSettings settings;
  settings.routes["smart"] = {
      .deployments = {{.provider = "a", .model = "m"}, {.provider = "b", .model = "m"}}};
  Routing routing(std::move(settings));
  const TimePoint now{std::chrono::hours(1)};
  const auto line = routing.candidates("smart", "");
  ASSERT_TRUE(line);
  for (int i = 0; i < 5; ++i) (*line)[0]->health.fail(now);
  telemetry::Page page;
  write_health(page, routing, now);
  EXPECT_THAT(
      page.text(),
      AllOf(HasSubstr("pons_model_available{route=\"smart\",provider=\"a\",model=\"m\"} 0\n"),
            HasSubstr("pons_model_available{route=\"smart\",provider=\"b\",model=\"m\"} 1\n")));
}

TEST(ProviderOfTest, TheAnswerTellsWhichDeploymentItWas) {
  ModelSettings settings;
  settings.providers["a"] = {.name = "a", .serves = {"claude-*"}};
  settings.providers["b"] = {.name = "b"};
  settings.routes["smart"] = {
      .deployments = {{.provider = "a", .model = "x"}, {.provider = "b", .model = "y"}}};
  EXPECT_EQ(provider_of(settings, "smart", "y"), "b");
  EXPECT_EQ(provider_of(settings, "smart", "unheard"), "a");
  EXPECT_EQ(provider_of(settings, "b/anything", ""), "b");
  EXPECT_EQ(provider_of(settings, "claude-9", ""), "a");
  EXPECT_EQ(provider_of(settings, "nobody", ""), "");
}

}  // namespace
}  // namespace pons::gateway
