#include "summary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "conversation_check.h"
#include "story.h"

namespace pons::session {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string block(const std::string& text) {
  return dump_json(Json::array({{{"type", "text"}, {"text", text}}}));
}

// A question for a summary, after that conversation.
std::string question_after(Story& story) {
  story.say("more");
  EXPECT_EQ(story.state.asked->purpose, Purpose::kSummary);
  expect_valid_request(story.state);
  return write_request(story.state, Purpose::kSummary);
}

Story full_story(const std::string& message, std::int64_t context_tokens = 200'000) {
  Story story({.model = "m", .context_tokens = context_tokens});
  story.add(UserMessage{.content = message, .dedupe = {}});
  story.answer(kHello, "end_turn", {.input = context_tokens});
  return story;
}

TEST(Summary, OnlyAnAnswerThatIsWholeStandsForAConversation) {
  for (const char* stop : {"end_turn", "stop_sequence"})
    EXPECT_TRUE(check_summary("all of it", stop)) << stop;
  for (const char* stop : {"tool_use", "max_tokens", "refusal", "pause_turn",
                           "model_context_window_exceeded", "something_new", ""}) {
    const auto checked = check_summary("some of it", stop);
    ASSERT_FALSE(checked) << stop;
    EXPECT_THAT(checked.error().message, HasSubstr(stop));
  }
  EXPECT_FALSE(check_summary(" \n", "end_turn"));
}

TEST(Summary, IsAskedForInWordsAloneAndWithoutTools) {
  Story story = full_story(
      R"([{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}])");
  const std::string question = question_after(story);
  EXPECT_THAT(question, Not(HasSubstr(R"("tools")")));
  EXPECT_THAT(question, Not(HasSubstr("iVBORw==")));
  EXPECT_THAT(question, HasSubstr("[image]"));
  EXPECT_THAT(question, HasSubstr("user: look"));
  EXPECT_THAT(question, HasSubstr("agent: hello"));
  EXPECT_THAT(question, Not(HasSubstr("more"))) << "what was not read yet is not swallowed";
}

// Each of these was sent whole, and then nothing could be said in the session any more.
TEST(Summary, WhateverWasSaidItIsNoLongerThanTheWindow) {
  const std::string large(4 << 20, 'x');
  constexpr std::size_t kWindow = 200'000 * 4;
  Story pasted = full_story(block(large));
  EXPECT_LT(question_after(pasted).size(), kWindow);

  Story listed({.model = "m", .custom = {{.name = "fetch", .definition = R"({"name":"fetch"})"}}});
  listed.say("hi");
  listed.call({{"fetch", "{}"}});
  listed.add(UserToolResult{.call = listed.state.calls.at(0).seq, .content = block(large)});
  listed.answer(kHello, "end_turn", {.input = 200'000});
  const std::string question = question_after(listed);
  EXPECT_LT(question.size(), kWindow);
  EXPECT_THAT(question, HasSubstr("agent calls fetch"));
  EXPECT_THAT(question, HasSubstr("result: xxx"));

  Story many({.model = "m"});
  for (int i = 0; i < 400; ++i) {
    many.say(fmt::format("question {} ", i) + std::string(10'000, 'y'));
    many.answer(kHello, "end_turn", {.input = i == 399 ? 200'000 : 1});
  }
  const std::string last = question_after(many);
  EXPECT_LT(last.size(), kWindow);
  EXPECT_THAT(last, HasSubstr("question 0 ")) << "what it is about";
  EXPECT_THAT(last, HasSubstr("question 399 "));
  EXPECT_THAT(last, Not(HasSubstr("question 5 "))) << "the oldest is left out";
  EXPECT_THAT(last, HasSubstr("are left out here"));
}

TEST(Summary, OfWhatIsTooLongAllTheSameHalfAsMuchIsAsked) {
  Story story = full_story(block("hi"), 20'000);
  for (int i = 0; i < 50; ++i) {
    story.state.messages.emplace_back(Message::Role::kUser, block(std::string(1'000, 'z')));
    story.state.messages.emplace_back(Message::Role::kAssistant, kHello);
  }
  std::size_t before = question_after(story).size();
  int asked = 1;
  for (; story.state.turn_open; ++asked) {
    story.fail(Trouble::kTooLong);
    if (!story.state.turn_open) break;
    ASSERT_EQ(story.state.asked->purpose, Purpose::kSummary);
    const std::size_t now = write_request(story.state, Purpose::kSummary).size();
    EXPECT_LT(now, before);
    before = now;
  }
  EXPECT_EQ(asked, 5);
  EXPECT_EQ(story.state.ended, EndReason::kModelFailed);
  EXPECT_LT(before, 5'000U);
}

TEST(Summary, AMessageThatNoModelTakesDoesNotStandInTheWayOfTheNext) {
  Story story;
  story.add(UserMessage{.content = block(std::string(4 << 20, 'x')), .dedupe = {}});
  story.fail(Trouble::kTooLong);
  EXPECT_EQ(story.state.ended, EndReason::kModelFailed);
  const std::string question = question_after(story);
  EXPECT_LT(question.size(), 100'000U);
  story.add(ContextSummarised{.asked = story.state.asked->seq, .summary = "it was long"});
  ASSERT_EQ(story.state.asked->purpose, Purpose::kReply);
  EXPECT_LT(write_request(story.state, Purpose::kReply).size(), 20'000U);
  story.answer(kHello);
  EXPECT_EQ(story.state.ended, EndReason::kEndTurn);
}

}  // namespace
}  // namespace pons::session
