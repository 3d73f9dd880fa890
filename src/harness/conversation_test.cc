#include "pons/harness/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "told.h"

namespace pons::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Says what its lines name.
class Puppet final : public Adapter {
 public:
  Capabilities capabilities() const override { return {}; }
  void greet(Output& out) override { out.lines.emplace_back("hello"); }
  void send(std::string_view text, Output& out) override {
    out.lines.push_back("say " + std::string(text));
  }
  void interrupt(Output& out) override { out.lines.emplace_back("stop"); }
  void decide(const std::string& id, const Decision& decision, Output& out) override {
    out.lines.push_back(id + (decision.allowed ? " may" : " may not"));
  }
  void answer(const std::string& id, const ToolAnswer& answer, Output& out) override {
    out.lines.push_back(id + " is " + answer.text);
  }
  Result<void> take(std::string_view line, Output& out) override {
    const std::string_view word = line.substr(0, line.find(' '));
    const std::string rest(line.size() > word.size() ? line.substr(word.size() + 1) : "");
    if (word == "ready")
      out.events.emplace_back(Ready{rest});
    else if (word == "text")
      out.events.emplace_back(Text{rest});
    else if (word == "call")
      out.events.emplace_back(ToolCall{.id = rest, .name = "t", .input = "{}"});
    else if (word == "result")
      out.events.emplace_back(ToolResult{.id = rest, .text = "r"});
    else if (word == "wants")
      out.events.emplace_back(ToolRequest{.id = rest, .name = "t", .input = "{}"});
    else if (word == "asks")
      out.events.emplace_back(PermissionRequest{.id = rest, .tool = "t", .input = "{}"});
    else if (word == "usage")
      out.events.emplace_back(Usage{.input = -5, .output = 7});
    else if (word == "done")
      out.events.emplace_back(Idle{Ending::kDone});
    else if (word == "failed")
      out.events.emplace_back(Idle{Ending::kFailed});
    else
      return make_error(ErrorCode::kInvalid, "read", "garbage");
    return {};
  }
};

Conversation create() {
  return Conversation(std::make_unique<Puppet>());
}

Conversation in_turn() {
  Conversation conversation = create();
  conversation.feed("ready s\n");
  EXPECT_TRUE(conversation.send("x"));
  return conversation;
}

TEST(Conversation, AMessageWaitsUntilTheHarnessIsReady) {
  Conversation conversation = create();
  EXPECT_THAT(conversation.start().lines, ElementsAre("hello"));
  EXPECT_THAT(conversation.send("first")->lines, IsEmpty());
  const Output out = conversation.feed("ready s1\n");
  EXPECT_THAT(told(out.events), ElementsAre("ready s1"));
  EXPECT_THAT(out.lines, ElementsAre("say first"));
  EXPECT_EQ(conversation.session(), "s1");
}

TEST(Conversation, WhatFailsBeforeItIsReadyLeavesNobodyWaiting) {
  for (const char* line : {"failed\n", "ready\n"}) {
    Conversation conversation = create();
    ASSERT_TRUE(conversation.send("first"));
    EXPECT_THAT(told(conversation.feed(line).events), testing::Contains("idle failed")) << line;
    EXPECT_EQ(conversation.send("second").error().code, ErrorCode::kUnavailable) << line;

    Conversation silent = create();
    silent.feed(line);
    EXPECT_EQ(silent.send("first").error().code, ErrorCode::kUnavailable) << line;
  }
}

TEST(Conversation, LinesMayComeInAnyPieces) {
  Conversation conversation = in_turn();
  EXPECT_THAT(conversation.feed("tex").events, IsEmpty());
  EXPECT_THAT(told(conversation.feed("t one\r\n\ntext two\ntext").events),
              ElementsAre("text one", "text two"));
  EXPECT_THAT(told(conversation.feed(" three\n").events), ElementsAre("text three"));
}

TEST(Conversation, ATurnEndsOnce) {
  Conversation conversation = in_turn();
  EXPECT_THAT(told(conversation.feed("done\ndone\nfailed\n").events), ElementsAre("idle done"));
  EXPECT_FALSE(conversation.is_in_turn());
}

TEST(Conversation, OutsideOfATurnNothingIsHeard) {
  Conversation conversation = create();
  conversation.feed("ready s\n");
  EXPECT_THAT(conversation.feed("text a\ncall 1\nusage\nwants 2\nasks 3\ndone\n").events,
              IsEmpty());
}

TEST(Conversation, ASecondMessageInATurnIsRefused) {
  Conversation conversation = in_turn();
  EXPECT_EQ(conversation.send("y").error().code, ErrorCode::kConflict);
}

TEST(Conversation, MessagesAreTextWithinALimit) {
  Conversation conversation = create();
  EXPECT_EQ(conversation.send("").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(conversation.send("\xff").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(conversation.send(std::string(Conversation::kMessageBytesMax + 1, 'x')).error().code,
            ErrorCode::kInvalid);
}

TEST(Conversation, EveryCallHasItsResultWhenTheTurnEnds) {
  Conversation conversation = in_turn();
  EXPECT_THAT(
      told(
          conversation.feed("result 9\ncall 1\ncall 1\ncall 2\nresult 1\nresult 1\ndone\n").events),
      ElementsAre("call 1 t {}", "call 2 t {}", "result 1 r",
                  "error 2 interrupted: nobody knows how far it came", "idle done"));
}

TEST(Conversation, QuestionsAreAnsweredOnce) {
  Conversation conversation = in_turn();
  conversation.feed("asks a\nwants b\n");
  EXPECT_THAT(conversation.decide("b", {.allowed = true}).lines, IsEmpty());
  EXPECT_THAT(conversation.decide("a", {.allowed = true}).lines, ElementsAre("a may"));
  EXPECT_THAT(conversation.decide("a", {.allowed = false}).lines, IsEmpty());
  EXPECT_THAT(conversation.answer("b", {.text = "it"}).lines, ElementsAre("b is it"));
  EXPECT_THAT(conversation.answer("b", {.text = "it"}).lines, IsEmpty());
}

TEST(Conversation, AnAnswerAfterTheTurnGoesNowhere) {
  Conversation conversation = in_turn();
  conversation.feed("wants b\ndone\n");
  EXPECT_THAT(conversation.answer("b", {.text = "late"}).lines, IsEmpty());
}

TEST(Conversation, AnInterruptedTurnEndsAsOneWhateverItIsCalled) {
  Conversation conversation = in_turn();
  EXPECT_THAT(conversation.interrupt().lines, ElementsAre("stop"));
  EXPECT_THAT(told(conversation.feed("failed\n").events), ElementsAre("idle interrupted"));
  EXPECT_THAT(conversation.interrupt().lines, IsEmpty());
}

TEST(Conversation, WhatWasNeverSentIsInterruptedAtOnce) {
  Conversation conversation = create();
  EXPECT_TRUE(conversation.send("x"));
  EXPECT_THAT(told(conversation.interrupt().events), ElementsAre("idle interrupted"));
  EXPECT_THAT(conversation.feed("ready s\n").lines, IsEmpty());
}

TEST(Conversation, AProcessThatEndsInATurnFailsIt) {
  Conversation conversation = in_turn();
  conversation.feed("call 1\n");
  EXPECT_THAT(told(conversation.ended("killed by signal 9").events),
              ElementsAre("failure harness: killed by signal 9",
                          "error 1 interrupted: nobody knows how far it came", "idle failed"));
  EXPECT_EQ(conversation.send("again").error().code, ErrorCode::kUnavailable);
}

TEST(Conversation, SomeGarbageIsPassedOverAndShown) {
  Conversation conversation = in_turn();
  EXPECT_THAT(told(conversation.feed("npm WARN old\ntext a\n").events), ElementsAre("text a"));
  EXPECT_THAT(conversation.garbage(), ElementsAre("npm WARN old"));
}

TEST(Conversation, AHarnessThatPrintsGarbageOnlyIsBroken) {
  Conversation conversation = in_turn();
  std::vector<std::string> heard;
  for (std::size_t i = 0; i < 3 * Conversation::kGarbageLinesMax; ++i)
    for (std::string& text : told(conversation.feed("?\n").events))
      heard.push_back(std::move(text));
  EXPECT_THAT(heard, ElementsAre("failure harness: most of what it writes is not of its protocol",
                                 "idle failed"));
  EXPECT_TRUE(conversation.is_broken());
}

TEST(Conversation, ALineWithoutEndIsNotKept) {
  Conversation conversation = in_turn();
  const std::string piece(1 << 20, 'x');
  std::vector<std::string> heard;
  for (int i = 0; i < 40; ++i)
    for (std::string& text : told(conversation.feed(piece).events))
      heard.push_back(std::move(text));
  EXPECT_THAT(heard, ElementsAre("failure harness: it wrote a line of more than 16777216 bytes",
                                 "idle failed"));
}

TEST(Conversation, CallsUnderWayAreBounded) {
  Conversation conversation = in_turn();
  for (std::size_t i = 0; i <= Conversation::kOpenMax; ++i)
    conversation.feed("call " + std::to_string(i) + "\n");
  EXPECT_TRUE(conversation.is_broken());
  EXPECT_FALSE(conversation.is_in_turn());
}

TEST(Conversation, UsageIsNeverNegative) {
  Conversation conversation = in_turn();
  EXPECT_THAT(told(conversation.feed("usage\n").events), ElementsAre("usage 0+0+0+7"));
}

TEST(Fault, IsFoundInTheWordsOfAHarness) {
  EXPECT_EQ(fault_of("unexpected status 401 Unauthorized: no"), Fault::kCredential);
  EXPECT_EQ(fault_of("exceeded retry limit, last status: 429 Too Many Requests"),
            Fault::kRateLimit);
  EXPECT_EQ(fault_of("429 budget_exceeded: the session has spent it"), Fault::kBudget);
  EXPECT_EQ(fault_of(400, "API Error: 400 budget: the limit is reached"), Fault::kBudget);
  EXPECT_EQ(fault_of(401, "a budget"), Fault::kCredential);
  EXPECT_EQ(fault_of("API Error: 529 Overloaded"), Fault::kUnavailable);
  EXPECT_EQ(fault_of("Request timed out."), Fault::kTimeout);
  EXPECT_EQ(fault_of("stream disconnected before completion"), Fault::kUnavailable);
  EXPECT_EQ(fault_of("Unexpected token < in JSON"), Fault::kMalformed);
  EXPECT_EQ(fault_of("order 14290 is lost"), Fault::kOther);
}

}  // namespace
}  // namespace pons::harness
