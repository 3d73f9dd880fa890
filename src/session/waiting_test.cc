#include <gmock/gmock.h>

#include "pons/session/conversation.h"
#include "story.h"

namespace pons::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

AgentSpec careful_agent() {
  AgentSpec agent{.model = "m", .tools = {"bash", "read"}, .asks = {"bash"}};
  agent.custom.push_back({.name = "own", .definition = R"({"name":"own"})"});
  return agent;
}

constexpr const char* kLs = R"({"command":"ls"})";

TEST(Waiting, ACallThatNeedsAWordWaitsForIt) {
  Story story(careful_agent());
  story.say("hi");
  story.call({{"bash", kLs}});
  EXPECT_EQ(story.state.calls[0].waits_for, WaitsFor::kDecision);
  EXPECT_EQ(status_of(story.state), Status::kWaitsForPerson);
  story.add(UserDecision{.call = story.state.calls[0].seq, .allowed = true});
  EXPECT_EQ(story.state.calls[0].waits_for, WaitsFor::kNobody);
  EXPECT_EQ(status_of(story.state), Status::kRunning);
  EXPECT_THAT(story.types_after(story.end_call(0)), ElementsAre("model.asked"));
}

TEST(Waiting, WhatIsDeniedIsNotDoneAndTheModelHearsWhy) {
  Story story(careful_agent());
  story.say("hi");
  story.call({{"bash", kLs}});
  const Seq denied =
      story.add(UserDecision{.call = story.state.calls[0].seq, .message = "not on Fridays"});
  EXPECT_THAT(story.types_after(denied), ElementsAre("model.asked"));
  const std::string request = write_request(story.state, Purpose::kReply);
  EXPECT_THAT(request, HasSubstr("not on Fridays"));
  EXPECT_THAT(request, HasSubstr(R"("is_error":true)"));
}

TEST(Waiting, OthersOfTheSameAnswerDoNotWait) {
  Story story(careful_agent());
  story.say("hi");
  story.call({{"bash", kLs}, {"read", R"({"file_path":"a"})"}});
  EXPECT_EQ(story.state.calls[1].waits_for, WaitsFor::kNobody);
  EXPECT_EQ(status_of(story.state), Status::kRunning);
  story.end_call(1);
  EXPECT_EQ(status_of(story.state), Status::kWaitsForPerson);
}

TEST(Waiting, AToolOfTheClientsIsAnsweredByTheClient) {
  Story story(careful_agent());
  story.say("hi");
  story.call({{"own", "{}"}});
  EXPECT_EQ(story.state.calls[0].waits_for, WaitsFor::kResult);
  const Seq call = story.state.calls[0].seq;
  const Seq answered =
      story.add(UserToolResult{.call = call, .content = R"([{"type":"text","text":"sunny"}])"});
  EXPECT_THAT(story.types_after(answered), ElementsAre("model.asked"));
  EXPECT_THAT(write_request(story.state, Purpose::kReply), HasSubstr("sunny"));
}

TEST(Waiting, AnswersToTheWrongQuestionChangeNothing) {
  Story story(careful_agent());
  story.say("hi");
  story.call({{"bash", kLs}, {"own", "{}"}});
  const Seq bash = story.state.calls[0].seq;
  const Seq own = story.state.calls[1].seq;
  story.add(UserToolResult{.call = bash, .content = "[]"});
  story.add(UserDecision{.call = own, .allowed = false});
  story.add(UserDecision{.call = 9'999, .allowed = true});
  EXPECT_TRUE(story.state.calls[0].is_open());
  EXPECT_TRUE(story.state.calls[1].is_open());
  EXPECT_EQ(story.state.calls[0].waits_for, WaitsFor::kDecision);
}

TEST(Waiting, AnInterruptEndsWhatWaits) {
  Story story(careful_agent());
  story.say("hi");
  story.call({{"bash", kLs}, {"own", "{}"}});
  story.add(Interrupted{});
  EXPECT_FALSE(story.state.turn_open);
  const Seq late = story.add(UserDecision{.call = story.state.calls[0].seq, .allowed = true});
  EXPECT_THAT(story.types_after(late), ElementsAre())
      << "a word that comes too late begins nothing";
}

TEST(Waiting, AnAgentThatWasChangedIsAskedForOtherTools) {
  Story story(careful_agent());
  AgentSpec other = careful_agent();
  other.tools = {"read"};
  story.add(AgentChanged{other});
  story.say("hi");
  story.call({{"bash", kLs}});
  ASSERT_EQ(story.all_of<ToolEnded>().size(), 1U);
  EXPECT_EQ(story.all_of<ToolEnded>()[0].outcome, ToolOutcome::kRefused);
}

TEST(Waiting, NotesOfWhoeverRunsTheAgentAreNotTheUsersWords) {
  Story story(careful_agent());
  story.add(UserMessage{.content = R"([{"type":"text","text":"it is noon"}])", .of_system = true});
  const std::string request = write_request(story.state, Purpose::kReply);
  EXPECT_THAT(request, HasSubstr("not from the user"));
  EXPECT_THAT(request, HasSubstr("it is noon"));
}

}  // namespace
}  // namespace pons::session
