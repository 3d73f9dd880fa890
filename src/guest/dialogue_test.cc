#include "dialogue.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pons::guest {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHello = R"({"role":"user","content":[{"type":"text","text":"hello"}]})";
constexpr const char* kMarkedHello =
    R"({"role":"user","content":[{"type":"text","text":"hello","cache_control":{"type":"ephemeral"}}]})";
constexpr const char* kCall =
    R"({"role":"assistant","content":[{"type":"text","text":"I look."},)"
    R"({"type":"tool_use","id":"c1","name":"sandbox_execute","input":{"command":"ls"}}]})";
constexpr const char* kResult =
    R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"a b"}]})";

Dialogue read(const std::string& messages) {
  auto dialogue = Dialogue::read(
      R"({"model":"m","system":"Be brief.","tools":[{"name":"sandbox_execute","description":"d",)"
      R"("input_schema":{"type":"object"}},{"type":"web_search","name":"web_search"}],"messages":[)" +
      messages + "]}");
  EXPECT_TRUE(dialogue) << dialogue.error().describe();
  return std::move(*dialogue);
}

std::string all(std::initializer_list<const char*> messages) {
  std::string list;
  for (const char* message : messages) list += (list.empty() ? "" : ",") + std::string(message);
  return list;
}

TEST(Dialogue, WhoHasHeardNothingHearsInstructionsAndTheFirstMessage) {
  const std::string told = read(kHello).as_told();
  EXPECT_THAT(told, HasSubstr("Be brief."));
  EXPECT_THAT(told, ::testing::EndsWith("hello"));
  EXPECT_THAT(told, Not(HasSubstr("<conversation>")));
}

TEST(Dialogue, ToolsOfTheProviderAreNotOffered) {
  const Dialogue dialogue = read(kHello);
  EXPECT_TRUE(dialogue.offers("sandbox_execute"));
  EXPECT_FALSE(dialogue.offers("web_search"));
}

TEST(Dialogue, ResultsAndWordsAreNewsAndWhatTheGuestSaidIsNot) {
  const Heard heard = read(kMarkedHello).heard();
  const auto news = read(all({kHello, kCall, kResult})).news_since(heard);
  ASSERT_TRUE(news);
  ASSERT_EQ(news->results.size(), 1U);
  EXPECT_EQ(news->results[0].call, "c1");
  EXPECT_EQ(news->results[0].name, "sandbox_execute");
  EXPECT_EQ(news->results[0].text, "a b");
  EXPECT_EQ(news->text, "");
}

TEST(Dialogue, AMarkForTheProvidersCacheIsNoOtherConversation) {
  EXPECT_EQ(read(kHello).heard(), read(kMarkedHello).heard());
}

TEST(Dialogue, TwoMessagesInOneAreStillTheOneThatWasHeard) {
  const Heard heard = read(kHello).heard();
  const auto news =
      read(
          R"({"role":"user","content":[{"type":"text","text":"hello"},{"type":"text","text":"more"}]})")
          .news_since(heard);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->text, "more");
}

TEST(Dialogue, AnotherConversationHasNoNews) {
  const Heard heard = read(kHello).heard();
  EXPECT_FALSE(read(R"({"role":"user","content":"hello!"})").news_since(heard));
  EXPECT_FALSE(read("").news_since(heard));
  // Somebody else has answered since.
  EXPECT_FALSE(read(all({kHello, kCall, kResult, kCall, kResult})).news_since(heard));
}

TEST(Dialogue, WhoWasNotThereIsToldEverything) {
  const std::string told = read(all({kHello, kCall, kResult})).as_told();
  EXPECT_THAT(told, HasSubstr("User: hello"));
  EXPECT_THAT(told, HasSubstr(R"([You called sandbox_execute with {"command":"ls"}])"));
  EXPECT_THAT(told, HasSubstr("[It answered: a b]"));
}

TEST(Dialogue, WhoWasCutOffIsToldToLookWhateverElseIsTold) {
  for (const auto& dialogue : {read(kHello), read(all({kHello, kCall, kResult}))}) {
    EXPECT_THAT(dialogue.as_told(LastTime::kCutOff), HasSubstr("look whether it is done"));
    EXPECT_THAT(dialogue.as_told(), Not(HasSubstr("cut off")));
  }
}

TEST(Dialogue, ALongStoryKeepsItsBeginningAndItsEnd) {
  std::string messages = kHello;
  for (int i = 0; i < 100; ++i)
    messages += fmt::format(
        R"(,{{"role":"assistant","content":[{{"type":"text","text":"{}"}}]}},{{"role":"user","content":"n{}"}})",
        std::string(10'000, 'x'), i);
  const std::string told = read(messages).as_told();
  EXPECT_LT(told.size(), 500'000U);
  EXPECT_THAT(told, HasSubstr("User: hello"));
  EXPECT_THAT(told, HasSubstr("User: n99"));
  EXPECT_THAT(told, HasSubstr("something is left out"));
}

TEST(Dialogue, WhatIsNoQuestionIsRefused) {
  for (const char* text :
       {"", "[]", R"({"messages":1})", R"({"messages":[1]})", R"({"messages":[{"role":"user"}]})",
        R"({"messages":[{"role":"user","content":[1]}]})", R"({"messages":[],"tools":[1]})"})
    EXPECT_FALSE(Dialogue::read(text)) << text;
}

}  // namespace
}  // namespace pons::guest
