#include "pons/session/decide.h"

#include <gmock/gmock.h>

#include "pons/session/tools.h"
#include "story.h"

namespace pons::session {
namespace {

using testing::ElementsAre;

TEST(Decide, AMessageMakesTheModelBeAskedInTheSameStep) {
  Story story;
  const Seq said = story.say("hi");
  EXPECT_THAT(story.types_after(said), ElementsAre("model.asked"));
  EXPECT_TRUE(decide(story.state).empty());
}

TEST(Decide, AnAnswerWithoutCallsIsSaidAndEndsTheTurn) {
  Story story;
  story.say("hi");
  const Seq answered = story.answer(kHello);
  EXPECT_THAT(story.types_after(answered), ElementsAre("agent.message", "turn.ended"));
  EXPECT_EQ(story.state.ended, EndReason::kEndTurn);
}

TEST(Decide, CallsOfOneAnswerBeginTogether) {
  Story story;
  story.say("hi");
  const Seq answered = story.call({{"spawn_agent", R"({"task":"a"})"},
                                   {"spawn_agent", R"({"task":"b"})"},
                                   {"sandbox_provision", kTask}});
  EXPECT_THAT(story.types_after(answered),
              ElementsAre("tool.called", "tool.called", "tool.called"));
  EXPECT_THAT(story.types_after(story.end_call(1)), ElementsAre());
  EXPECT_THAT(story.types_after(story.end_call(0)), ElementsAre());
  EXPECT_THAT(story.types_after(story.bind(2, "box")), ElementsAre("model.asked"));
}

TEST(Decide, CallsThatCannotBeAreAnsweredAndNothingIsRun) {
  Story story({.model = "m", .tools = {"sandbox_execute", "ask_human"}, .depth = kDepthMax});
  story.say("hi");
  story.call({{"rm_rf", "{}"},
              {"spawn_agent", R"({"task":"t"})"},
              {"sandbox_provision", kTask},
              {"ask_human", "{}"},
              {"ask_human", R"({"question":7})"},
              {"", "{}"}});
  const auto ended = story.all_of<ToolEnded>();
  ASSERT_EQ(ended.size(), 6U);
  for (const ToolEnded& end : ended) {
    EXPECT_EQ(end.outcome, ToolOutcome::kRefused);
    EXPECT_FALSE(end.text.empty());
  }
  EXPECT_TRUE(story.state.asked) << "the model hears of it";
}

TEST(Decide, ACutOffAnswerRunsNothing) {
  Story story;
  story.say("hi");
  story.call({{"sandbox_execute", kRun}}, "max_tokens");
  EXPECT_EQ(story.all_of<ToolEnded>().at(0).outcome, ToolOutcome::kRefused);
  story.answer(kHello, "max_tokens");
  EXPECT_EQ(story.state.ended, EndReason::kAnswerCutOff);
}

TEST(Decide, AnInterruptEndsEverythingInOneStep) {
  Story story;
  story.say("hi");
  story.call({{"sandbox_provision", kTask}});
  story.bind(0, "box");
  story.call({{"sandbox_execute", kRun}, {"sandbox_provision", kTask}, {"sandbox_execute", kRun}});
  const Seq at = story.add(Interrupted{});
  EXPECT_THAT(story.types_after(at), ElementsAre("tool.ended", "tool.ended", "tool.called",
                                                 "tool.ended", "sandbox.released", "turn.ended"));
  EXPECT_EQ(story.state.ended, EndReason::kInterrupted);
  Story asking;
  asking.say("hi");
  EXPECT_THAT(asking.types_after(asking.add(Interrupted{})),
              ElementsAre("model.failed", "turn.ended"));
}

TEST(Decide, SandboxesEndWithTheTurnUnlessTheyAreKept) {
  Story story;
  story.say("hi");
  story.call({{"sandbox_provision", kTask}, {"sandbox_provision", kTask}});
  story.bind(0, "kept", true);
  story.bind(1, "brief");
  story.answer(kHello);
  const auto released = story.all_of<SandboxReleased>();
  ASSERT_EQ(released.size(), 1U);
  EXPECT_EQ(released[0].sandbox, "brief");
}

TEST(Decide, AModelThatFailsIsAskedAgainLaterAndNotForEver) {
  Story story;
  story.say("hi");
  for (int i = 0; story.state.turn_open && i < 100; ++i) {
    story.fail(Trouble::kPassing);
    if (!story.state.turn_open) break;
    EXPECT_FALSE(story.state.asked) << "not before the timer";
    story.add(TimerFired{});
  }
  EXPECT_EQ(story.state.ended, EndReason::kRetriesExhausted);
  const auto all = story.all_of<ModelAsked>();
  EXPECT_EQ(all.size(), 9U);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i].attempt, static_cast<std::int64_t>(i) + 1);
}

TEST(Decide, TroubleThatLastsEndsTheTurn) {
  const std::vector<std::pair<Trouble, EndReason>> cases = {
      {Trouble::kLasting, EndReason::kModelFailed},
      {Trouble::kBudget, EndReason::kBudgetReached},
      {Trouble::kTooLong, EndReason::kModelFailed}};  // one message: nothing to make short
  for (const auto& [trouble, reason] : cases) {
    Story story;
    story.say("hi");
    story.fail(trouble);
    EXPECT_EQ(story.state.ended, reason);
    story.say("again");
    EXPECT_TRUE(story.state.asked) << "a person may try again";
  }
}

TEST(Decide, AModelThatLoopsIsStoppedByItsLimits) {
  Story calls({.model = "m", .calls_per_turn = 5});
  calls.say("hi");
  for (int i = 0; calls.state.turn_open && i < 100; ++i) calls.call({{"rm_rf", "{}"}});
  EXPECT_EQ(calls.state.ended, EndReason::kCallLimit);
  EXPECT_EQ(calls.all_of<ModelAsked>().size(), 5U);

  Story pauses({.model = "m", .calls_per_turn = 5});
  pauses.say("hi");
  for (int i = 0; pauses.state.turn_open && i < 100; ++i) pauses.answer(kHello, "pause_turn");
  EXPECT_EQ(pauses.state.ended, EndReason::kCallLimit);

  for (const AgentSpec& agent : {AgentSpec{.model = "m", .budget_nano = 100},
                                 AgentSpec{.model = "m", .budget_tokens = 100}}) {
    Story budget(agent);
    budget.say("hi");
    for (int i = 0; budget.state.turn_open && i < 100; ++i)
      budget.answer(R"([{"type":"tool_use","id":"1","name":"x","input":{}}])", "tool_use",
                    {.output = 30, .cost_nano = 30});
    EXPECT_EQ(budget.state.ended, EndReason::kBudgetReached);
    EXPECT_EQ(budget.all_of<ModelAsked>().size(), 4U);
  }
}

TEST(Decide, AFullWindowIsSummarisedOnceAndWhatPeopleSaidMeanwhileIsKept) {
  Story story({.model = "m", .context_tokens = 100});
  story.say("hi");
  story.answer(kHello, "end_turn", {.input = 81});
  story.say("more");
  ASSERT_TRUE(story.state.asked);
  EXPECT_EQ(story.state.asked->purpose, Purpose::kSummary);
  EXPECT_EQ(story.state.unread.size(), 1U);
  story.add(ContextSummarised{.asked = story.state.asked->seq, .summary = "all of it"});
  ASSERT_TRUE(story.state.asked);
  EXPECT_EQ(story.state.asked->purpose, Purpose::kReply);
  EXPECT_TRUE(story.state.unread.empty());
}

TEST(Decide, ASummaryThatDoesNotHelpIsNotMadeAgain) {
  Story story;
  story.say("hi");
  story.answer(kHello);
  story.say("more");
  story.fail(Trouble::kTooLong);
  ASSERT_EQ(story.state.asked->purpose, Purpose::kSummary);
  story.add(ContextSummarised{.asked = story.state.asked->seq, .summary = "short"});
  ASSERT_EQ(story.state.asked->purpose, Purpose::kReply);
  story.fail(Trouble::kTooLong);
  EXPECT_EQ(story.state.ended, EndReason::kModelFailed);

  Story failing;
  failing.say("hi");
  failing.answer(kHello);
  failing.say("more");
  failing.fail(Trouble::kTooLong);
  failing.fail(Trouble::kLasting);
  EXPECT_EQ(failing.state.ended, EndReason::kModelFailed);
}

TEST(Decide, WhatPeopleSayWhileAToolRunsIsReadWithItsResult) {
  Story story;
  story.say("hi");
  story.call({{"spawn_agent", R"({"task":"t"})"}});
  EXPECT_THAT(story.types_after(story.say("also")), ElementsAre());
  EXPECT_THAT(story.types_after(story.end_call(0)), ElementsAre("model.asked"));
  EXPECT_NE(story.state.messages.back().content->find("also"), std::string::npos);
}

// ---- what a session knows and borrows

AgentSpec knowing() {
  AgentSpec agent{.model = "m"};
  agent.memory = {{.store = "memstore_1", .name = "notes"}};
  return agent;
}

AgentSpec borrowing() {
  AgentSpec agent{.model = "m"};
  agent.servers = {{.name = "far", .url = "https://far.example/mcp"}};
  return agent;
}

const ServerTool kFarTool{.server = "far", .name = "do", .alias = "far__do", .definition = "{}"};

Equipped equipped(const Story& story, std::vector<ServerTool> tools = {}) {
  return {.asked = story.state.equipping.value_or(0), .notes = "notes", .tools = std::move(tools)};
}

TEST(Decide, WhatASessionKnowsIsLookedUpOnceBeforeTheModelIsAsked) {
  Story story(knowing());
  EXPECT_THAT(story.types_after(story.say("hi")), ElementsAre("session.equipping"));
  EXPECT_EQ(status_of(story.state), Status::kRunning);
  EXPECT_THAT(story.types_after(story.say("more")), ElementsAre());
  EXPECT_THAT(story.types_after(story.add(Equipped{.asked = 1})), ElementsAre())
      << "an answer to nothing";
  EXPECT_THAT(story.types_after(story.add(equipped(story))), ElementsAre("model.asked"));
  EXPECT_EQ(story.state.notes, "notes");
  story.answer(kHello);
  EXPECT_THAT(story.types_after(story.say("again")), ElementsAre("model.asked"));
}

TEST(Decide, ServersAreAskedInEachTurnWhatTheyOffer) {
  Story story(borrowing());
  story.say("hi");
  EXPECT_THAT(story.types_after(story.add(equipped(story, {kFarTool}))),
              ElementsAre("model.asked"));
  story.answer(kHello);
  EXPECT_THAT(story.types_after(story.say("again")), ElementsAre("session.equipping"));
  Equipped same = equipped(story);
  same.same_tools = true;
  story.add(std::move(same));
  EXPECT_NE(story.state.find_server_tool("far__do"), nullptr);
  story.answer(kHello);
  story.say("and again");
  story.add(equipped(story));
  EXPECT_EQ(story.state.find_server_tool("far__do"), nullptr) << "it is not offered any more";
}

TEST(Decide, ToolsOfServersAreCalledAndMayHaveToBeAllowed) {
  Story story(borrowing());
  story.say("hi");
  ServerTool asking = kFarTool;
  asking.alias = "far__ask";
  asking.asks = true;
  story.add(equipped(story, {kFarTool, asking}));
  EXPECT_THAT(story.types_after(story.call({{"far__do", "{}"}, {"far__ask", "{}"}, {"do", "{}"}})),
              ElementsAre("tool.called", "tool.called", "tool.called", "tool.ended"));
  EXPECT_EQ(story.state.calls[0].server, "far");
  EXPECT_EQ(story.state.calls[0].server_name, "do");
  EXPECT_EQ(story.state.calls[0].waits_for, WaitsFor::kNobody);
  EXPECT_EQ(story.state.calls[1].waits_for, WaitsFor::kDecision);
  story.add(UserDecision{.call = story.state.calls[1].seq, .allowed = true});
  EXPECT_EQ(story.state.calls[1].waits_for, WaitsFor::kNobody);
}

TEST(Decide, AnInterruptionDoesNotWaitForServers) {
  Story story(borrowing());
  story.say("hi");
  const Seq asked = *story.state.equipping;
  EXPECT_THAT(story.types_after(story.add(Interrupted{})), ElementsAre("turn.ended"));
  EXPECT_THAT(story.types_after(story.add(Equipped{.asked = asked, .tools = {kFarTool}})),
              ElementsAre());
  EXPECT_TRUE(story.state.server_tools.empty());
  EXPECT_THAT(story.types_after(story.say("again")), ElementsAre("session.equipping"));
}

TEST(Decide, WordsFromOutsideAreRemembered) {
  Story story;
  story.say("hi");
  story.call({{"spawn_agent", R"({"task":"t"})"}});
  EXPECT_FALSE(story.state.has_read_untrusted);
  story.add(ToolEnded{.call = story.state.calls[0].seq, .text = "x", .untrusted = true});
  EXPECT_TRUE(story.state.has_read_untrusted);
  story.answer(kHello);
  story.say("hi");
  EXPECT_TRUE(story.state.has_read_untrusted) << "they are still in the conversation";
}

}  // namespace
}  // namespace pons::session
