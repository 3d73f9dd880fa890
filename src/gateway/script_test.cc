#include "script.h"

#include <gtest/gtest.h>

namespace pons::gateway {
namespace {

models::Request conversation(std::string_view user, int turns = 0) {
  models::Request request;
  for (int i = 0; i < turns; ++i) {
    request.messages.push_back({.parts = {{.content = models::TextPart{.text = "before"}}}});
    request.messages.push_back({.role = models::Role::kAssistant,
                                .parts = {{.content = models::TextPart{.text = "answer"}}}});
  }
  request.messages.push_back({.parts = {{.content = models::TextPart{.text = std::string(user)}}}});
  return request;
}

std::string text_of(const ScriptedAnswer* answer) {
  if (answer == nullptr) return "nothing";
  return std::get<models::TextPart>(answer->answer.parts.front().content).text;
}

TEST(ScriptTest, TheFirstAnswerWhoseConditionsHoldIsTaken) {
  const auto script = Script::parse(R"({"answers":[
    {"when":{"user":"weather","turn":0},"text":"look"},
    {"when":{"user":"weather"},"text":"again"},
    {"when":{"model":"other"},"text":"other"},
    {"when":{"system":"be brief"},"text":"brief"}]})");
  ASSERT_TRUE(script) << script.error().describe();
  EXPECT_EQ(text_of(script->find(conversation("the weather?"), "m")), "look");
  EXPECT_EQ(text_of(script->find(conversation("the weather?", 1), "m")), "again");
  EXPECT_EQ(text_of(script->find(conversation("hello"), "other")), "other");
  EXPECT_EQ(text_of(script->find(conversation("hello"), "m")), "nothing");
  models::Request brief = conversation("hello");
  brief.messages.insert(brief.messages.begin(),
                        {.role = models::Role::kSystem,
                         .parts = {{.content = models::TextPart{.text = "You must be brief."}}}});
  EXPECT_EQ(text_of(script->find(brief, "m")), "brief");
}

TEST(ScriptTest, ToolResultsAreLookedAt) {
  const auto script =
      Script::parse(R"({"answers":[{"when":{"tool_result":"sunny"},"text":"it is"}]})").value();
  models::Request request = conversation("weather");
  EXPECT_EQ(text_of(script.find(request, "m")), "nothing");
  models::ToolResultPart result{.call_id = "t"};
  result.content.push_back({.content = models::TextPart{.text = "sunny, 20 degrees"}});
  request.messages.push_back({.parts = {{.content = std::move(result)}}});
  EXPECT_EQ(text_of(script.find(request, "m")), "it is");
}

TEST(ScriptTest, WhatMakesNoSenseIsRefusedAtItsPlace) {
  const auto refused = [](std::string_view json) {
    const auto script = Script::parse(json);
    return script ? std::string() : script.error().message;
  };
  EXPECT_NE(refused(R"({"answers":[{"txet":"x"}]})").find("txet"), std::string::npos);
  EXPECT_NE(refused(R"({"answers":[{"stop":"maybe"}]})").find("max_tokens"), std::string::npos);
  EXPECT_NE(
      refused(R"({"answers":[{"text":"a"},{"tools":[{"input":{}}]}]})").find("/answers/1/tools/0"),
      std::string::npos);
  EXPECT_FALSE(refused(R"({})").empty());
  EXPECT_FALSE(refused("nonsense").empty());
}

}  // namespace
}  // namespace pons::gateway
