#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pons/models/protocol.h"

namespace pons::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a reader told, one line per event.
struct Told {
  std::vector<std::string> lines;
  AnswerBuilder built;
  Result<void> read;
};

std::string line_of(const AnswerEvent& event) {
  if (std::holds_alternative<AnswerBegins>(event)) return "begins";
  if (std::holds_alternative<PartEnds>(event)) return "end";
  if (std::holds_alternative<AnswerEnds>(event)) return "ends";
  if (std::holds_alternative<Failure>(event)) return "failure";
  if (std::holds_alternative<ProofCame>(event)) return "proof";
  if (std::holds_alternative<CitationCame>(event)) return "citation";
  if (const auto* grows = std::get_if<PartGrows>(&event)) return "+" + std::string(grows->text);
  const Part& part = std::get<PartBegins>(event).part;
  if (const auto* call = std::get_if<ToolCallPart>(&part.content)) return "tool " + call->name;
  if (std::holds_alternative<ThinkingPart>(part.content)) return "thinking";
  return std::holds_alternative<RefusalPart>(part.content) ? "refusal" : "text";
}

Told feed(const std::vector<std::string>& events, bool finish = true) {
  Told told;
  const auto reader = chat_protocol().stream_reader();
  const AnswerSink sink = [&](const AnswerEvent& event) {
    told.lines.push_back(line_of(event));
    told.built.take(event);
  };
  for (const std::string& data : events) {
    told.read = reader->feed({.id = {}, .event = {}, .data = data}, sink);
    if (!told.read) return told;
  }
  if (finish) told.read = reader->finish(sink);
  return told;
}

std::string delta(std::string_view fields, std::string_view finish = "null") {
  return R"({"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{)" +
         std::string(fields) + R"(},"finish_reason":)" + std::string(finish) + "}]}";
}
std::string tool(std::string_view fields) {
  return delta(R"("tool_calls":[{)" + std::string(fields) + "}]");
}

TEST(ChatStreamInTest, TextIsPassedOnAsItComesAndUsageIsTakenFromTheLastChunk) {
  auto told = feed({delta(R"("role":"assistant","content":"")"), delta(R"("content":"He")"),
                    delta(R"("content":"llo")"), delta("", R"("stop")"),
                    R"({"id":"c1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":4,
                       "total_tokens":14,"prompt_tokens_details":{"cached_tokens":3},
                       "completion_tokens_details":{"reasoning_tokens":0}}})",
                    "[DONE]"});
  ASSERT_TRUE(told.read);
  EXPECT_THAT(told.lines, ElementsAre("begins", "text", "+He", "+llo", "end", "ends"));
  const Answer& answer = told.built.answer();
  EXPECT_EQ(answer.id, "c1");
  EXPECT_EQ(answer.model, "m");
  EXPECT_EQ(answer.stop, Stop::kEnd);
  EXPECT_EQ(answer.usage, (Usage{.input = 7, .cache_read = 3, .output = 4, .reasoning = 0}));
}

TEST(ChatStreamInTest, TheBeginningIsToldOnceEvenAfterEmptyAndUsageChunks) {
  auto told = feed({R"({"id":"","model":"","choices":[],"prompt_filter_results":[]})",
                    R"({"id":"c1","choices":[],"usage":{"prompt_tokens":5}})", delta(""),
                    delta(R"("role":"assistant")"), delta(R"("role":"assistant","content":"a")"),
                    delta("", R"("stop")"), "[DONE]", "[DONE]"});
  ASSERT_TRUE(told.read);
  EXPECT_THAT(told.lines, ElementsAre("begins", "text", "+a", "end", "ends"));
  EXPECT_EQ(told.built.answer().usage.input, 5);
}

TEST(ChatStreamInTest, ThinkingTextAndToolsBecomePartsThatDoNotOverlap) {
  auto told = feed({delta(R"("reasoning_content":"hm")"), delta(R"("content":"I look")"),
                    tool(R"("index":0,"id":"a","function":{"name":"f","arguments":""})"),
                    tool(R"("index":0,"function":{"arguments":"{\"x\""})"),
                    tool(R"("index":0,"function":{"arguments":":1}"})"),
                    tool(R"("index":1,"id":"b","function":{"name":"g","arguments":"{}"})"),
                    delta("", R"("tool_calls")"), "[DONE]"});
  ASSERT_TRUE(told.read) << told.read.error().describe();
  EXPECT_THAT(told.lines,
              ElementsAre("begins", "thinking", "+hm", "end", "text", "+I look", "end", "tool f",
                          R"(+{"x")", "+:1}", "end", "tool g", "+{}", "end", "ends"));
  EXPECT_EQ(told.built.answer().stop, Stop::kToolUse);
}

TEST(ChatStreamInTest, MixedToolCallsAreHeldUntilTheirTurn) {
  auto told = feed({tool(R"("index":0,"id":"a","function":{"name":"f","arguments":"{\"k\":"})"),
                    tool(R"("index":1,"id":"b","function":{"name":"g","arguments":"{\"}\":"})"),
                    tool(R"("index":0,"function":{"arguments":"\"}\""})"),
                    tool(R"("index":1,"function":{"arguments":"2"})"),
                    tool(R"("index":0,"function":{"arguments":"}"})"),
                    tool(R"("index":1,"function":{"arguments":"}"})"), delta("", R"("stop")")});
  ASSERT_TRUE(told.read);
  EXPECT_THAT(told.lines, ElementsAre("begins", "tool f", R"(+{"k":)", R"(+"}")", "+}", "end",
                                      "tool g", R"(+{"}":2)", "+}", "end", "ends"));
  // A server that says "stop" although there are calls.
  EXPECT_EQ(told.built.answer().stop, Stop::kToolUse);
}

TEST(ChatStreamInTest, CallsWithoutIndexWithoutIdAndWithObjectsAreTaken) {
  auto told = feed({tool(R"("id":"a","function":{"name":"f","arguments":{"x":1}})"),
                    tool(R"("id":"b","function":{"name":"g","arguments":"{}"})"),
                    tool(R"("function":{"name":"h","arguments":"{}"})"), delta("", R"("stop")")});
  ASSERT_TRUE(told.read);
  const auto& parts = told.built.answer().parts;
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(std::get<ToolCallPart>(parts[0].content).input, R"({"x":1})");
  EXPECT_EQ(std::get<ToolCallPart>(parts[1].content).id, "b");
  EXPECT_THAT(std::get<ToolCallPart>(parts[2].content).id, HasSubstr("call_"));
}

TEST(ChatStreamInTest, CallsThatShareAnIndexAreToldApartByTheirIds) {
  auto told = feed({tool(R"("index":0,"id":"a","function":{"name":"f","arguments":"{}"})"),
                    tool(R"("index":0,"id":"b","function":{"name":"f","arguments":"{}"})"),
                    delta("", R"("tool_calls")")});
  ASSERT_TRUE(told.read);
  EXPECT_EQ(told.built.answer().parts.size(), 2U);
}

TEST(ChatStreamInTest, AServerThatRepeatsIdAndNameMeansTheSameCall) {
  auto told = feed({tool(R"("index":0,"id":"a","function":{"name":"f","arguments":"{"})"),
                    tool(R"("index":0,"id":"a","function":{"name":"f","arguments":"}"})"),
                    tool(R"("index":0,"id":"","function":{"name":null,"arguments":""})"),
                    delta("", R"("tool_calls")")});
  ASSERT_TRUE(told.read);
  EXPECT_THAT(told.lines, ElementsAre("begins", "tool f", "+{", "+}", "end", "ends"));
}

TEST(ChatStreamInTest, AWholeCallWithItsEndInOneChunkIsTaken) {
  auto told = feed({delta(
      R"("tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}])",
      R"("tool_calls")")});
  ASSERT_TRUE(told.read);
  EXPECT_THAT(told.lines, ElementsAre("begins", "tool f", "+{}", "end", "ends"));
}

TEST(ChatStreamInTest, CustomToolsAndTheOldFormAreTaken) {
  auto custom =
      feed({tool(R"("index":0,"id":"a","type":"custom","custom":{"name":"p","input":"x"})"),
            tool(R"("index":0,"custom":{"input":"{"})"), delta("", R"("tool_calls")")});
  EXPECT_EQ(std::get<ToolCallPart>(custom.built.answer().parts.at(0).content),
            (ToolCallPart{.id = "a", .name = "p", .input = "x{", .free_form = true}));
  auto old = feed({delta(R"("function_call":{"name":"f","arguments":"{"})"),
                   delta(R"("function_call":{"arguments":"}"})"), delta("", R"("function_call")")});
  EXPECT_EQ(std::get<ToolCallPart>(old.built.answer().parts.at(0).content).input, "{}");
  EXPECT_EQ(old.built.answer().stop, Stop::kToolUse);
}

TEST(ChatStreamInTest, ReasoningIsReadUnderBothNamesButOnce) {
  auto told =
      feed({delta(R"("reasoning_content":"a","reasoning":"a","content":null)"),
            delta(R"("reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b"},
                       {"type":"reasoning.encrypted","data":"z"}])"),
            delta(R"("content":"t")"), delta("", R"("stop")")});
  ASSERT_TRUE(told.read);
  EXPECT_EQ(std::get<ThinkingPart>(told.built.answer().parts.at(0).content),
            (ThinkingPart{.text = "ab",
                          .proof = R"([{"type":"reasoning.encrypted","data":"z"}])",
                          .author = Protocol::kChat}));
}

TEST(ChatStreamInTest, ATextThatIsSignedIsKeptWithItsSignature) {
  auto told = feed(
      {delta(
           R"("reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","index":0}])"),
       delta(
           R"("reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","index":0}])"),
       delta(
           R"("reasoning_details":[{"type":"reasoning.text","signature":"Sig=","format":"f","index":0}])"),
       delta(R"("content":"t")"), delta("", R"("stop")")});
  ASSERT_TRUE(told.read);
  EXPECT_EQ(
      std::get<ThinkingPart>(told.built.answer().parts.at(0).content),
      (ThinkingPart{
          .text = "ab",
          .proof =
              R"([{"type":"reasoning.text","text":"ab","signature":"Sig=","format":"f","index":0}])",
          .author = Protocol::kChat}));
}

TEST(ChatStreamInTest, ContentInListsIsThinkingAndText) {
  auto told =
      feed({delta(R"("content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}])"),
            delta(R"("content":[{"type":"text","text":"t"}])"), delta("", R"("stop")")});
  EXPECT_THAT(told.lines,
              ElementsAre("begins", "thinking", "+h", "end", "text", "+t", "end", "ends"));
}

TEST(ChatStreamInTest, RefusalsAndStopSequencesAreToldApart) {
  auto refused = feed({delta(R"("refusal":"no")"), delta("", R"("stop")")});
  EXPECT_EQ(refused.built.answer().stop, Stop::kRefusal);
  auto stopped =
      feed({delta(R"("content":"a")"),
            R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":"END"}]})"});
  EXPECT_EQ(stopped.built.answer().stop, Stop::kStopSequence);
  EXPECT_EQ(stopped.built.answer().stop_sequence, "END");
  auto token =
      feed({delta(R"("content":"a")"),
            R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":7}]})"});
  EXPECT_EQ(token.built.answer().stop, Stop::kEnd);
  auto filtered = feed({delta(R"("content":"a")", R"("content_filter")")});
  EXPECT_EQ(filtered.built.answer().stop, Stop::kRefusal);
  auto full = feed({delta(R"("content":"a")", R"("length")")});
  EXPECT_EQ(full.built.answer().stop, Stop::kMaxTokens);
}

TEST(ChatStreamInTest, AnEmptyFinishReasonIsNoEnd) {
  EXPECT_FALSE(feed({delta(R"("content":"a")", R"("")")}).read);
}

TEST(ChatStreamInTest, AStreamThatIsCutIsAnErrorAndHasNoEnd) {
  auto told = feed({delta(R"("content":"a")")});
  EXPECT_FALSE(told.read);
  EXPECT_FALSE(told.built.is_whole());
  EXPECT_FALSE(feed({}).read);
  EXPECT_FALSE(feed({"[DONE]"}).read);
}

TEST(ChatStreamInTest, AnEndWithoutDoneIsWholeWhenTheStreamEnds) {
  auto told = feed({delta(R"("content":"a")"), delta("", R"("stop")")});
  EXPECT_TRUE(told.read);
  EXPECT_TRUE(told.built.is_whole());
}

TEST(ChatStreamInTest, AFailureInTheStreamIsAnEvent) {
  auto told = feed({delta(R"("content":"a")"), R"({"error":{"message":"busy","code":503}})"});
  EXPECT_TRUE(told.read);
  ASSERT_TRUE(told.built.failure());
  EXPECT_EQ(told.built.failure()->kind, Failing::kOverloaded);
  EXPECT_EQ(told.built.failure()->message, "busy");
  auto gave_up = feed({delta(R"("content":"a")", R"("error")")});
  EXPECT_TRUE(gave_up.built.failure());
}

TEST(ChatStreamInTest, WhatNobodyCanReadIsAnError) {
  EXPECT_FALSE(feed({"{"}).read);
  EXPECT_FALSE(feed({"7"}).read);
  EXPECT_FALSE(feed({delta(R"("content":7)")}).read);
  EXPECT_FALSE(feed({tool(R"("index":0,"id":"a","function":{"arguments":"{}"})"),
                     delta("", R"("tool_calls")")})
                   .read);
  EXPECT_FALSE(feed({tool(R"("index":0,"id":"a","function":{"name":"f","arguments":"{}"})"),
                     tool(R"("index":1,"id":"b","function":{"name":"f","arguments":"{}"})"),
                     tool(R"("index":0,"function":{"arguments":"{}"})")},
                    false)
                   .read);
}

TEST(ChatStreamInTest, OtherChoicesAndUnknownEventsAreSkipped) {
  auto told = feed({R"({"type":"ping"})", "",
                    R"({"id":"c","choices":[{"index":1,"delta":{"content":"other"}}]})",
                    delta(R"("content":"a")"), delta("", R"("stop")")});
  ASSERT_TRUE(told.read);
  EXPECT_THAT(told.lines, ElementsAre("begins", "text", "+a", "end", "ends"));
}

}  // namespace
}  // namespace pons::models
