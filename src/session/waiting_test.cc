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
  EXPECT_TRUE(story.all_of<ToolCalled>().at(0).asks) << "whoever follows sees that it waits";
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

// ---- wishes of programs in sandboxes

Event wish(const std::string& request) {
  return AccessAsked{.request = request,
                     .host = "a.example",
                     .port = 443,
                     .wish = R"({"host":"a.example","port":443,"reason":"to build"})"};
}

AgentSpec agent_with_machine() {
  return {.model = "m", .tools = {"bash"}};
}

TEST(Access, PeopleAreAskedWhileTheProgramThatAsksStillRuns) {
  Story story(agent_with_machine());
  story.say("hi");
  story.call({{"bash", kLs}});
  const Seq asked = story.add(wish("acc_1"));
  EXPECT_EQ(status_of(story.state), Status::kWaitsAtWork);
  EXPECT_FALSE(is_at_rest(Status::kWaitsAtWork)) << "the program ends when it ends";
  story.add(UserDecision{.call = asked, .allowed = true});
  EXPECT_EQ(status_of(story.state), Status::kRunning) << "until it is done";
  story.add(AccessEnded{.request = "acc_1", .outcome = AccessOutcome::kAllowed});
  EXPECT_EQ(status_of(story.state), Status::kRunning);
  EXPECT_THAT(story.types_after(story.end_call(0)), ElementsAre("model.asked"));
  EXPECT_THAT(write_request(story.state, Purpose::kReply), HasSubstr("reach a.example:443"));
}

TEST(Access, TheAgentGoesOnWhenPeopleHaveDecided) {
  Story story(agent_with_machine());
  story.say("hi");
  story.call({{"bash", kLs}});
  const Seq asked = story.add(wish("acc_1"));
  EXPECT_THAT(story.types_after(story.end_call(0)), ElementsAre());
  EXPECT_EQ(status_of(story.state), Status::kWaitsForPerson);
  story.add(UserDecision{.call = asked, .message = "not on Fridays"});
  EXPECT_THAT(
      story.types_after(story.add(AccessEnded{
          .request = "acc_1", .outcome = AccessOutcome::kDenied, .message = "not on Fridays"})),
      ElementsAre("model.asked"));
  EXPECT_THAT(write_request(story.state, Purpose::kReply), HasSubstr("not on Fridays"));
}

TEST(Access, WhatIsAskedAfterTheTurnOpensAnother) {
  Story story(agent_with_machine());
  story.say("hi");
  story.answer(kHello);
  EXPECT_EQ(status_of(story.state), Status::kIdle);
  const Seq asked = story.add(wish("acc_1"));
  EXPECT_EQ(status_of(story.state), Status::kWaitsForPerson);
  story.add(UserDecision{.call = asked, .allowed = true});
  EXPECT_THAT(story.types_after(
                  story.add(AccessEnded{.request = "acc_1", .outcome = AccessOutcome::kAllowed})),
              ElementsAre("model.asked"));
}

TEST(Access, AskingTwiceAsksOnceAndADecisionStands) {
  Story story(agent_with_machine());
  story.say("hi");
  const Seq asked = story.add(wish("acc_1"));
  story.add(wish("acc_1"));
  EXPECT_EQ(story.state.access.size(), 1U);
  story.add(UserDecision{.call = asked, .allowed = true});
  story.add(UserDecision{.call = asked, .allowed = false});
  EXPECT_TRUE(story.state.access.at(0).decision->allowed);
  story.add(AccessEnded{.request = "acc_1", .outcome = AccessOutcome::kAllowed});
  story.add(wish("acc_1"));
  EXPECT_TRUE(story.state.access.empty()) << "it was asked long ago";
}

TEST(Access, AnInterruptWithdrawsIt) {
  Story story(agent_with_machine());
  story.say("hi");
  story.call({{"bash", kLs}});
  story.add(wish("acc_1"));
  EXPECT_THAT(story.types_after(story.add(Interrupted{})),
              ElementsAre("access.ended", "tool.ended", "turn.ended"));
  EXPECT_EQ(story.all_of<AccessEnded>().at(0).outcome, AccessOutcome::kWithdrawn);
  EXPECT_TRUE(story.state.access.empty());
}

TEST(Access, OnAnotherNodeItIsLostWithItsMachine) {
  Story story(agent_with_machine());
  story.say("hi");
  story.answer(kHello);
  story.add(wish("acc_1"));
  EXPECT_THAT(story.types_after(story.add(Resumed{.epoch = 2, .node = "other"})),
              ElementsAre("access.ended", "model.asked"));
}

}  // namespace
}  // namespace pons::session
