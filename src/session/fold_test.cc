#include "pons/session/fold.h"

#include <gtest/gtest.h>

#include "story.h"

namespace pons::session {
namespace {

TEST(Fold, AnEventThatMakesNoSenseIsCountedAndChangesNothingElse) {
  Story story;
  story.say("hi");
  const std::vector<Event> nonsense = {
      ModelAnswered{.asked = 99, .content = kHello, .stop_reason = "end_turn"},
      ContextSummarised{.asked = story.state.asked->seq, .summary = "s"},
      ModelFailed{.asked = 99},
      ToolEnded{.call = 99, .text = "t"},
      ToolCalled{.asked = 1, .block = 0},
      UserAnswer{.call = 99, .text = "t"},
      SandboxReleased{.sandbox = "none"},
      ModelAsked{},
      ModelCharged{.question = "99", .usage = {.input = 1}},
  };
  for (const Event& event : nonsense) {
    State before = story.state;
    State after = story.state;
    fold(after, {.seq = before.head + 1, .at_ms = 5, .event = event});
    before.head += 1;
    before.at_ms = 5;
    EXPECT_EQ(after, before) << type_of(event);
  }
}

TEST(Fold, AQuestionThatIsAskedAnewIsAnotherAndTheFirstIsPaidOnce) {
  Story story;
  story.say("hi");
  const std::string first = question_name(*story.state.asked);
  story.add(Resumed{.epoch = 2, .unpaid = true});
  ASSERT_TRUE(story.state.asked);
  EXPECT_NE(question_name(*story.state.asked), first);
  for (int i = 0; i < 2; ++i) story.add(ModelCharged{.question = first, .usage = {.input = 5}});
  EXPECT_EQ(story.state.usage.input, 5);
  EXPECT_TRUE(story.state.unpaid.empty());
  story.add(Interrupted{});
  EXPECT_EQ(story.state.unpaid.size(), 1U);
}

TEST(Fold, AMessageThatCameAlreadyIsNone) {
  Story story;
  const Seq first = story.say("hi", "key");
  const std::size_t unread = story.state.unread.size();
  story.say("hi", "key");
  EXPECT_EQ(story.state.unread.size(), unread);
  EXPECT_EQ(story.state.dedupe.at("key"), first);
}

TEST(Fold, TheModelDoesNotHearFromWhichFileBytesCame) {
  Story story;
  story.add(UserMessage{
      .content =
          R"([{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw==","file_id":"file_1"}},)"
          R"({"type":"text","text":"\"file_id\":\"file_1\""}])"});
  ASSERT_EQ(story.state.messages.size(), 1U) << "it was asked";
  EXPECT_EQ(
      *story.state.messages[0].content,
      R"([{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}},)"
      R"({"type":"text","text":"\"file_id\":\"file_1\""}])");
}

TEST(Fold, AnInterruptWhileNothingRunsIsForgotten) {
  Story story;
  story.add(Interrupted{});
  EXPECT_FALSE(story.state.interrupted);
  story.say("hi");
  EXPECT_TRUE(story.state.asked) << "the next turn is not interrupted by it";
}

TEST(Fold, ACommandWithoutASandboxGoesToTheOneBeforeItInTheSameAnswer) {
  Story story;
  story.say("hi");
  story.call({{"sandbox_provision", kTask},
              {"sandbox_execute", kRun},
              {"sandbox_provision", kTask},
              {"sandbox_execute", kRun}});
  EXPECT_EQ(story.state.calls[1].seq, 0) << "waits for its sandbox";
  story.bind(2, "second");
  EXPECT_EQ(story.state.calls[1].seq, 0);
  story.bind(0, "first");
  EXPECT_EQ(story.state.calls[1].sandbox, "first");
  EXPECT_EQ(story.state.calls[3].sandbox, "second");
}

TEST(Fold, ACommandWhoseSandboxCameToNothingGoesToNoOther) {
  Story story;
  story.say("hi");
  story.call({{"sandbox_provision", kTask}});
  story.bind(0, "old");
  story.call({{"sandbox_provision", kTask}, {"sandbox_execute", kRun}});
  story.add(ToolEnded{.call = story.state.calls[0].seq,
                      .outcome = ToolOutcome::kRefused,
                      .is_error = true,
                      .text = "no"});
  ASSERT_NE(story.state.calls[1].seq, 0);
  EXPECT_EQ(story.state.calls[1].sandbox, "");
}

TEST(Fold, WhatOthersMaySeeOfACallIsWithheldWhenItLostItsShape) {
  const char* const content =
      R"([{"type":"tool_use","id":"1","name":"sandbox_execute","input":{"command":"12345678"}}])";
  for (const char* shown : {"[withheld: it holds a credential]", R"([{"xxxx":"tool_use"}])", "[]",
                            R"([{"type":"tool_use","input":xxxxxxxx}])", "7"}) {
    Story story;
    story.say("hi");
    story.add(ModelAnswered{.asked = story.state.asked->seq,
                            .content = content,
                            .shown = shown,
                            .redacted = {"pin"},
                            .stop_reason = "tool_use"});
    const auto called = story.all_of<ToolCalled>();
    ASSERT_EQ(called.size(), 1U);
    EXPECT_EQ(called[0].input, R"({"command":"12345678"})") << "the tool gets what it needs";
    EXPECT_EQ(write_public({.event = called[0]}).find("12345678"), std::string::npos) << shown;
  }
}

TEST(Fold, ANameThatHoldsASecretIsNotShown) {
  Story story;
  story.say("hi");
  story.add(
      ModelAnswered{.asked = story.state.asked->seq,
                    .content = R"([{"type":"tool_use","id":"1","name":"hunter2","input":{}}])",
                    .shown = R"([{"type":"tool_use","id":"1","name":"xxxxxxx","input":{}}])",
                    .redacted = {"password"},
                    .stop_reason = "tool_use"});
  EXPECT_EQ(story.all_of<ToolCalled>().at(0).name, "xxxxxxx");
}

TEST(Fold, AForkHasNeitherSandboxesNorOpenCalls) {
  Story story;
  story.say("hi");
  story.call({{"sandbox_provision", kTask}, {"ask_human", R"({"question":"?"})"}});
  story.bind(0, "box");
  story.add(Forked{.from = "s", .at = story.state.head});
  EXPECT_TRUE(story.state.sandboxes.empty());
  EXPECT_FALSE(story.state.turn_open);
  for (const Call& call : story.state.calls) EXPECT_TRUE(call.ended);
  EXPECT_EQ(status_of(story.state), Status::kIdle);
}

TEST(Fold, TheStatusSaysWhomASessionWaitsFor) {
  Story story;
  EXPECT_EQ(status_of(story.state), Status::kIdle);
  story.say("hi");
  EXPECT_EQ(status_of(story.state), Status::kRunning);
  story.fail(Trouble::kPassing);
  EXPECT_EQ(status_of(story.state), Status::kRescheduled);
  EXPECT_EQ(story.state.wake_at_ms, 1'010);
  story.add(TimerFired{});
  EXPECT_EQ(status_of(story.state), Status::kRunning);
  story.call({{"ask_human", R"({"question":"?"})"}, {"sandbox_provision", kTask}});
  EXPECT_EQ(status_of(story.state), Status::kRunning);
  story.bind(1, "box");
  EXPECT_EQ(status_of(story.state), Status::kWaitsForPerson);
  story.add(UserAnswer{.call = story.state.calls[0].seq, .text = "this"});
  EXPECT_EQ(status_of(story.state), Status::kRunning);
  story.answer(kHello);
  EXPECT_EQ(status_of(story.state), Status::kIdle);
}

TEST(Fold, WhatOtherAgentsUsedCounts) {
  Story story;
  story.say("hi");
  story.call({{"spawn_agent", R"({"task":"t"})"}});
  story.add(ToolEnded{.call = story.state.calls[0].seq, .text = "done", .usage = {.output = 7}});
  EXPECT_EQ(story.state.usage.output, 7);
}

}  // namespace
}  // namespace pons::session
