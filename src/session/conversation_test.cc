#include "pons/session/conversation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "conversation_check.h"
#include "story.h"

namespace pons::session {
namespace {

TEST(Conversation, IsValidAfterAPlainTurn) {
  Story story;
  story.say("hi");
  expect_valid_request(story.state);
  story.call({{"sandbox_provision", kTask}});
  story.bind(0, "box");
  expect_valid_request(story.state);
  story.call({{"sandbox_execute", kRun}, {"sandbox_execute", kRun}});
  story.end_call(1);
  story.end_call(0, "");
  expect_valid_request(story.state);
}

TEST(Conversation, IsValidAfterAnInterruptAnywhere) {
  for (int point = 0; point < 4; ++point) {
    Story story;
    story.say("hi");
    if (point >= 1) story.call({{"sandbox_provision", kTask}, {"sandbox_execute", kRun}});
    if (point >= 2) story.bind(0, "box");
    if (point >= 3) story.end_call(1);
    story.add(Interrupted{});
    EXPECT_FALSE(story.state.turn_open);
    story.say("go on");
    expect_valid_request(story.state);
  }
}

TEST(Conversation, IsValidAfterAForkAnywhere) {
  Story original;
  original.say("hi");
  original.call({{"sandbox_provision", kTask}, {"sandbox_execute", kRun}});
  original.bind(0, "box");
  original.end_call(1);
  original.call({{"rm_rf", "{}"}});
  original.answer(kHello);
  for (std::size_t at = 1; at <= original.events.size(); ++at) {
    Story story;
    story.state = fold(State{}, {original.events.begin(),
                                 original.events.begin() + static_cast<std::ptrdiff_t>(at)});
    story.add(Forked{.from = "s", .at = static_cast<Seq>(at)});
    story.say("go on");
    expect_valid_request(story.state);
  }
}

TEST(Conversation, IsValidWhileAndAfterItIsSummarised) {
  Story story({.model = "m", .context_tokens = 100});
  story.say("hi");
  story.answer(R"([{"type":"tool_use","id":"1","name":"spawn_agent","input":{"task":"t"}}])",
               "tool_use", {.input = 90});
  story.say("also");
  story.end_call(0, std::string(5'000, 'x') + "\xC3\xBC");
  ASSERT_EQ(story.state.asked->purpose, Purpose::kSummary);
  const Json summary = expect_valid_request(story.state);
  EXPECT_LT(summary.dump().size(), 10'000U) << "long results are shown in part";
  EXPECT_EQ(summary.dump().find("also"), std::string::npos) << "not swallowed by the summary";
  story.add(ContextSummarised{.asked = story.state.asked->seq, .summary = "so far"});
  ASSERT_EQ(story.state.asked->purpose, Purpose::kReply);
  const Json after = expect_valid_request(story.state);
  EXPECT_EQ(after.at("messages").size(), 1U);
  EXPECT_NE(after.dump().find("so far"), std::string::npos);
  EXPECT_NE(after.dump().find("also"), std::string::npos);
}

TEST(Conversation, IsValidAfterAnswersThatAreOdd) {
  for (const char* content : {"[]", "{}", "", "7", "[7]"}) {
    Story story;
    story.say("hi");
    story.answer(content);
    EXPECT_FALSE(story.state.turn_open);
    story.say("well?");
    if (std::string_view(content) != "[7]") expect_valid_request(story.state);
  }
  Story cut;
  cut.say("hi");
  cut.call({{"sandbox_execute", R"({"unreadable":"{\"comm"})"}}, "max_tokens");
  expect_valid_request(cut.state);
  Story pause;
  pause.say("hi");
  pause.answer(kHello, "pause_turn");
  pause.answer(kHello, "pause_turn");
  expect_valid_request(pause.state);
}

TEST(Conversation, ThinkingThatNobodyHasSignedIsNotSentToAProvider) {
  Story story;
  story.say("hi");
  story.answer(R"([{"type":"thinking","thinking":"of a guest"},{"type":"text","text":"hello"}])");
  story.say("well?");
  const Json request = expect_valid_request(story.state);
  EXPECT_EQ(request.dump().find("of a guest"), std::string::npos);
  EXPECT_NE(request.dump().find("hello"), std::string::npos);
  Story only;
  only.say("hi");
  only.answer(R"([{"type":"thinking","thinking":"of a guest"}])");
  only.say("well?");
  EXPECT_EQ(expect_valid_request(only.state).at("messages").size(), 1U);
  Story signed_by;
  signed_by.say("hi");
  signed_by.answer(
      R"([{"type":"thinking","thinking":"of a model","signature":"s"},{"type":"text","text":"a"}])");
  signed_by.say("well?");
  EXPECT_NE(write_request(signed_by.state, Purpose::kReply).find("of a model"), std::string::npos);
}

TEST(Conversation, WhatFailsIsAskedAgainWithTheSameWords) {
  Story story;
  story.say("hi");
  const std::string first = write_request(story.state, Purpose::kReply);
  story.fail(Trouble::kPassing);
  story.add(TimerFired{});
  EXPECT_EQ(write_request(story.state, Purpose::kReply), first);
  EXPECT_EQ(story.all_of<ModelAsked>()[0].digest, story.all_of<ModelAsked>()[1].digest);
  story.fail(Trouble::kPassing);
  story.say("hello?");
  story.add(TimerFired{});
  const Json both = expect_valid_request(story.state);
  EXPECT_EQ(both.at("messages").size(), 1U) << "two things said in a row are one message";
}

TEST(Conversation, TheDigestTellsConversationsApart) {
  Story one;
  Story two;
  one.say("hi");
  two.say("ho");
  EXPECT_NE(one.all_of<ModelAsked>()[0].digest, two.all_of<ModelAsked>()[0].digest);
}

}  // namespace
}  // namespace pons::session
