#include "pons/gateway/settings.h"

#include <gtest/gtest.h>

namespace pons::gateway {
namespace {

using Documents = std::map<std::string, std::string>;

std::string refused(const Documents& providers, const Documents& models = {}) {
  const auto settings = read_model_settings(providers, models);
  return settings ? "" : settings.error().message;
}

TEST(SettingsTest, WithoutProvidersAScriptIntroducesItself) {
  const auto settings = read_model_settings(Documents{}, Documents{});
  ASSERT_TRUE(settings);
  EXPECT_TRUE(settings->providers.at("demo").is_scripted());
  EXPECT_EQ(settings->routes.at("demo").deployments.front().provider, "demo");
}

TEST(SettingsTest, AKeyInTheConfigurationIsRefused) {
  const std::string message = refused({{"a", R"({"kind":"anthropic","key":"sk-ant-secret"})"}});
  EXPECT_NE(message.find("key_env"), std::string::npos);
  EXPECT_EQ(message.find("sk-ant-secret"), std::string::npos);
}

TEST(SettingsTest, WhatMakesNoSenseIsRefusedAtItsPlace) {
  EXPECT_NE(refused({{"a", R"({"kind":"anthropc"})"}}).find("/providers/a/kind"),
            std::string::npos);
  EXPECT_NE(refused({{"a", R"({})"}}).find("kind"), std::string::npos);
  EXPECT_NE(refused({{"a", R"({"kind":"openai-compatible"})"}}).find("url"), std::string::npos);
  EXPECT_NE(refused({{"a", R"({"kind":"openai","nonsense":1})"}}).find("nonsense"),
            std::string::npos);
  EXPECT_NE(refused({{"a", R"({"kind":"openai","url":"ftp://x"})"}}).find("https://"),
            std::string::npos);
  EXPECT_NE(refused({}, {{"smart", R"({"try":["nobody/x"]})"}}).find("no provider"),
            std::string::npos);
  EXPECT_NE(refused({{"a", R"({"kind":"openai"})"}}, {{"smart", R"({"try":["a"]})"}})
                .find("PROVIDER/MODEL"),
            std::string::npos);
  for (const char* file : {"key_file", "authority_file"})
    EXPECT_NE(refused({{"a", R"({"kind":"openai",")" + std::string(file) + R"(":"relative"})"}})
                  .find("absolute"),
              std::string::npos);
}

TEST(SettingsTest, UrlsAreTakenApart) {
  const auto url = ProviderUrl::parse("http://[::1]:8080/v1/").value();
  EXPECT_FALSE(url.tls);
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.port, 8080);
  EXPECT_EQ(url.path, "/v1");
  EXPECT_EQ(url.authority(), "[::1]:8080");
  EXPECT_EQ(ProviderUrl::parse("https://API.openai.com/v1").value().authority(), "api.openai.com");
  for (const char* bad : {"", "example.com", "https://", "https://a b", "https://x:0",
                          "https://x:99999", "https://x/a?b", "http://user@host/", "https://[::1"})
    EXPECT_FALSE(ProviderUrl::parse(bad)) << bad;
}

TEST(SettingsTest, AnOpenAiSpeaksBothOfItsProtocols) {
  const auto settings =
      read_model_settings({{"o", R"({"kind":"openai","key_env":"K"})"}}, {}).value();
  EXPECT_TRUE(settings.providers.at("o").speaks(models::Protocol::kChat));
  EXPECT_TRUE(settings.providers.at("o").speaks(models::Protocol::kResponses));
  EXPECT_FALSE(settings.providers.at("o").speaks(models::Protocol::kMessages));
}

TEST(SettingsTest, TheLongestSilenceIsThatOfTheMostPatientProvider) {
  const auto settings =
      read_model_settings(
          {{"a", R"({"kind":"openai","whole_seconds":7200})"},
           {"b", R"({"kind":"openai","first_event_seconds":5000,"whole_seconds":60})"}},
          {})
          .value();
  EXPECT_EQ(settings.providers.at("a").longest_silence(), std::chrono::hours(2));
  EXPECT_EQ(settings.longest_silence(), std::chrono::seconds(10'000)) << "the last has more time";
}

}  // namespace
}  // namespace pons::gateway
