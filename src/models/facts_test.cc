#include "pons/models/facts.h"

#include <gtest/gtest.h>

namespace pons::models {
namespace {

Result<RequestFacts> facts_of(std::string body, Protocol protocol = Protocol::kChat) {
  return read_facts(protocol, body);
}

std::string renamed(std::string body, std::string_view model, Protocol protocol = Protocol::kChat) {
  const auto facts = read_facts(protocol, body);
  EXPECT_TRUE(facts) << facts.error().describe();
  if (facts) rename_model(protocol, body, *facts, model);
  return body;
}

TEST(FactsTest, OnlyTheNameOfTheModelChanges) {
  EXPECT_EQ(
      renamed(
          R"({ "messages":[{"role":"user","content":"\"model\":\"no\""}],"model" : "smart" , "x":{"model":1}})",
          "gpt-5"),
      R"({ "messages":[{"role":"user","content":"\"model\":\"no\""}],"model" : "gpt-5" , "x":{"model":1}})");
  EXPECT_EQ(renamed(R"({"model":"a\"b\\","stream":false})", "q\"x"),
            R"({"model":"q\"x","stream":false})");
}

TEST(FactsTest, ANameWrittenWithEscapesIsFoundToo) {
  EXPECT_EQ(renamed(R"({"mod\u0065l":"sm\u0061rt"})", "b"), R"({"mod\u0065l":"b"})");
  EXPECT_EQ(facts_of(R"({"mod\u0065l":"sm\u0061rt"})")->model, "smart");
}

TEST(FactsTest, TwoModelsAreRefused) {
  for (const char* body :
       {R"({"model":"cheap","model":"dear"})", R"({"model":"cheap","mod\u0065l":"dear"})",
        R"({"model":"a","max_tokens":1,"max_tokens":100000})"}) {
    const auto facts = facts_of(body);
    ASSERT_FALSE(facts) << body;
    EXPECT_NE(facts.error().message.find("twice"), std::string::npos);
  }
}

TEST(FactsTest, AChatStreamIsAskedForItsUsage) {
  EXPECT_EQ(renamed(R"({"model":"a","stream":true})", "b"),
            R"({"model":"b","stream_options":{"include_usage":true},"stream":true})");
  EXPECT_EQ(renamed(R"({"stream_options":{"include_usage":false},"model":"a","stream":true})", "b"),
            R"({"stream_options":{"include_usage":true},"model":"b","stream":true})");
  EXPECT_EQ(
      renamed(R"({"model":"a","stream":true,"stream_options":{"include_usage":true,"x":1}})", "b"),
      R"({"model":"b","stream":true,"stream_options":{"include_usage":true,"x":1}})");
  EXPECT_EQ(renamed(R"({"model":"a","stream":true})", "b", Protocol::kMessages),
            R"({"model":"b","stream":true})");
}

TEST(FactsTest, WhatIsNoRequestIsRefusedWithAReason) {
  for (const char* body : {"", "[]", "1", "{", R"({"model":"a")", R"({"model":7})",
                           R"({"messages":[]})", R"({"model":""})", R"({"model":"a"} x)",
                           R"({"model":"a","stream":"yes"})", R"({"model":"a","max_tokens":-1})",
                           R"({"model":"a","messages":[1,2})", "{\"model\":\"\xff\"}"}) {
    const auto facts = facts_of(body);
    ASSERT_FALSE(facts) << body;
    EXPECT_FALSE(facts.error().message.empty());
  }
}

TEST(FactsTest, WhatWouldEscapeTheCountIsRefused) {
  for (const char* body :
       {R"({"model":"a","background":true})", R"({"model":"a","Max_Output_Tokens":5})",
        R"({"Model":"dear","model":"cheap"})", R"({"model":"a\nb"})", R"({"model":"a b"})"})
    EXPECT_FALSE(facts_of(body, Protocol::kResponses)) << body;
  EXPECT_FALSE(facts_of(R"({"model":")" + std::string(200, 'x') + "\"}"));
  // A name of another protocol limits nothing.
  EXPECT_FALSE(facts_of(R"({"model":"a","max_output_tokens":1})")->output_tokens_max);
  EXPECT_TRUE(
      facts_of(R"({"model":"a","conversation":"c"})", Protocol::kResponses)->has_remote_prompt);
}

TEST(FactsTest, AServiceThatCostsMoreIsNoticedAndACheaperOneIsNotBelieved) {
  const auto percent = [](const std::string& fields) {
    const auto facts = facts_of(R"({"model":"a",)" + fields + "}");
    return facts ? facts->price_percent : -1;
  };
  for (const char* usual : {R"("service_tier":"auto")", R"("service_tier":"flex")",
                            R"("service_tier":null)", R"("service_tier":"standard_only")",
                            R"("speed":"standard")", R"("inference_geo":"global")"})
    EXPECT_EQ(percent(usual), 100) << usual;
  EXPECT_EQ(percent(R"("service_tier":"priority")"), 250);
  EXPECT_EQ(percent(R"("service_tier":"new and dear")"), 250);
  EXPECT_EQ(percent(R"("speed":"fast")"), 600);
  EXPECT_EQ(percent(R"("speed":"fast","inference_geo":"us")"), 660);
  EXPECT_EQ(percent(R"("service_tier":7)"), -1);
  EXPECT_EQ(percent(R"("Service_Tier":"priority")"), -1);
}

TEST(FactsTest, ThinkingOfAnotherProviderIsNoticed) {
  EXPECT_TRUE(facts_of(R"({"model":"a","messages":[{"content":[{"signature":"pons1.eyJ9"}]}]})")
                  ->carries_proof);
  EXPECT_FALSE(facts_of(R"({"model":"a","messages":[{"content":"say pons1. or \"pons1."}]})")
                   ->carries_proof);
}

TEST(FactsTest, LimitsAndKeysAreFound) {
  const auto facts = facts_of(
      R"({"max_completion_tokens":7,"max_tokens":null,"model":"a","prompt_cache_key":"k","n":3})");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->output_tokens_max, 7);
  EXPECT_EQ(facts->cache_key, "k");
  EXPECT_EQ(facts->choices, 3);
}

}  // namespace
}  // namespace pons::models
