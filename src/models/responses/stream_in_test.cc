#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pons/models/protocol.h"

namespace pons::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Events as words: "begin resp_1", "text", "+hi", "end" …
struct Heard {
  std::vector<std::string> words;
  AnswerBuilder builder;

  void operator()(const AnswerEvent& event) {
    builder.take(event);
    if (const auto* begins = std::get_if<AnswerBegins>(&event))
      words.push_back("begin " + begins->id);
    if (const auto* part = std::get_if<PartBegins>(&event)) {
      static const char* const kNames[] = {"text", "refusal", "media", "thinking",
                                           "call", "result",  "opaque"};
      words.emplace_back(kNames[part->part.content.index()]);
    }
    if (const auto* grows = std::get_if<PartGrows>(&event))
      words.push_back("+" + std::string(grows->text));
    if (const auto* proof = std::get_if<ProofCame>(&event))
      words.push_back("proof " + proof->proof);
    if (const auto* cited = std::get_if<CitationCame>(&event))
      words.push_back("cite " + cited->json);
    if (std::holds_alternative<PartEnds>(event)) words.emplace_back(".");
    if (std::holds_alternative<AnswerEnds>(event)) words.emplace_back("over");
    if (const auto* failure = std::get_if<Failure>(&event))
      words.push_back("failure " + failure->message);
  }
};

struct Feeding {
  std::unique_ptr<AnswerReader> reader = responses_protocol().stream_reader();
  Heard heard;
  AnswerSink sink = [this](const AnswerEvent& event) { heard(event); };

  Result<void> feed(std::string_view data) {
    return reader->feed({.event = "message", .data = std::string(data)}, sink);
  }
  void feed_all(std::initializer_list<std::string_view> events) {
    for (const auto event : events) {
      const auto fed = feed(event);
      EXPECT_TRUE(fed) << fed.error().describe();
    }
  }
};

constexpr std::string_view kCreated =
    R"({"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"m","status":"in_progress","output":[]}})";
constexpr std::string_view kCompleted =
    R"({"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":4,"output_tokens_details":{"reasoning_tokens":2}}}})";
constexpr std::string_view kCallAdded0 =
    R"({"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_0","call_id":"c0","name":"f","arguments":""}})";
constexpr std::string_view kCallAdded1 =
    R"({"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"g","arguments":""}})";

TEST(ResponsesStreamInTest, ReasoningTextAndACallAreTold) {
  Feeding feeding;
  feeding.feed_all(
      {kCreated,
       R"({"type":"response.in_progress","response":{"id":"resp_1"}})",
       R"({"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}})",
       R"({"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}})",
       R"({"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"a"})",
       R"({"type":"response.reasoning_summary_text.done","output_index":0,"summary_index":0,"text":"a"})",
       R"({"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"b"})",
       R"({"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"}],"encrypted_content":"EE"}})",
       R"({"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1","content":[]}})",
       R"({"type":"response.content_part.added","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}})",
       R"({"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"he"})",
       R"({"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":""})",
       R"({"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"y"})",
       R"({"type":"response.output_text.annotation.added","output_index":1,"content_index":0,"annotation":{"type":"url_citation"}})",
       R"({"type":"response.output_text.done","output_index":1,"content_index":0,"text":"hey"})",
       R"({"type":"response.content_part.done","output_index":1,"content_index":0,"part":{"type":"output_text","text":"hey","annotations":[]}})",
       R"({"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"hey"}]}})",
       R"({"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","namespace":"s","arguments":""}})",
       R"({"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"a\""})",
       R"({"type":"response.function_call_arguments.delta","output_index":2,"delta":":1}"})",
       R"({"type":"response.function_call_arguments.done","output_index":2,"arguments":"{\"a\":1}"})",
       R"({"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"}})",
       kCompleted,
       "[DONE]"});
  EXPECT_TRUE(feeding.reader->finish(feeding.sink));
  EXPECT_THAT(
      feeding.heard.words,
      ElementsAre("begin resp_1", "thinking", "+a", "+\n\n", "+b",
                  R"(proof {"id":"rs_1","encrypted_content":"EE"})", ".", "text", "+he", "+y",
                  R"(cite {"type":"url_citation"})", ".", "call", R"(+{"a")", "+:1}", ".", "over"));
  EXPECT_EQ(feeding.heard.builder.answer().stop, Stop::kToolUse);
  EXPECT_EQ(feeding.heard.builder.answer().usage, (Usage{.input = 3, .output = 4, .reasoning = 2}));
}

TEST(ResponsesStreamInTest, CallsThatAreWrittenSideBySideDoNotOverlap) {
  Feeding feeding;
  feeding.feed_all(
      {kCreated, kCallAdded0, kCallAdded1,
       R"({"type":"response.function_call_arguments.delta","output_index":1,"delta":"1a"})",
       R"({"type":"response.function_call_arguments.delta","output_index":0,"delta":"0a"})",
       R"({"type":"response.function_call_arguments.delta","output_index":1,"delta":"1b"})",
       R"({"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c1","name":"g","arguments":"1a1b"}})",
       R"({"type":"response.function_call_arguments.delta","output_index":0,"delta":"0b"})",
       R"({"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c0","name":"f","arguments":"0a0b"}})",
       kCompleted});
  EXPECT_THAT(feeding.heard.words,
              ElementsAre("begin resp_1", "call", "+0a", "+0b", ".", "call", "+1a1b", ".", "over"));
}

TEST(ResponsesStreamInTest, WhatDidNotComeInPiecesComesWithTheEndOfItsItem) {
  Feeding feeding;
  feeding.feed_all(
      {kCreated, kCreated, kCallAdded0,
       R"({"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c0","name":"f","arguments":"{}"}})",
       R"({"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"t"},{"type":"refusal","refusal":"r"}]}})",
       R"({"type":"response.output_item.done","output_index":2,"item":{"type":"web_search_call","id":"ws"}})",
       R"({"type":"response.custom_thing.happened","output_index":9})", R"({"type":"ping"})",
       kCompleted});
  EXPECT_THAT(feeding.heard.words, ElementsAre("begin resp_1", "call", "+{}", ".", "text", "+t",
                                               ".", "refusal", "+r", ".", "opaque", ".", "over"));
}

TEST(ResponsesStreamInTest, AStreamOfNothingButItsEndIsWhole) {
  Feeding feeding;
  feeding.feed_all(
      {R"({"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"t"}]}]}})"});
  EXPECT_THAT(feeding.heard.words, ElementsAre("begin r", "text", "+t", ".", "over"));
  EXPECT_EQ(feeding.heard.builder.answer().stop, Stop::kMaxTokens);
}

TEST(ResponsesStreamInTest, ACutStreamIsAnError) {
  Feeding feeding;
  feeding.feed_all({kCreated, kCallAdded0});
  const auto finished = feeding.reader->finish(feeding.sink);
  ASSERT_FALSE(finished);
  EXPECT_THAT(finished.error().message, HasSubstr("before response.completed"));
}

TEST(ResponsesStreamInTest, AFailureInTheProvidersWordsIsAnEvent) {
  for (
      const char* said :
      {R"({"type":"error","code":"rate_limit_exceeded","message":"slow","param":null})",
       R"({"type":"error","error":{"type":"x","code":"rate_limit_exceeded","message":"slow"}})",
       R"({"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}})"}) {
    Feeding feeding;
    feeding.feed_all({kCreated, said});
    EXPECT_THAT(feeding.heard.words, ElementsAre("begin resp_1", "failure slow")) << said;
    EXPECT_EQ(feeding.heard.builder.failure()->kind, Failing::kRateLimit);
    EXPECT_TRUE(feeding.reader->finish(feeding.sink));
  }
}

TEST(ResponsesStreamInTest, WhatNobodyCanReadIsRefused) {
  Feeding early;
  EXPECT_FALSE(early.feed(kCallAdded0));
  Feeding nonsense;
  EXPECT_FALSE(nonsense.feed("{"));
  Feeding orphan;
  EXPECT_TRUE(orphan.feed(kCreated));
  EXPECT_FALSE(orphan.feed(
      R"({"type":"response.function_call_arguments.delta","output_index":3,"delta":"x"})"));
  Feeding odd;
  EXPECT_TRUE(odd.feed(kCreated));
  EXPECT_FALSE(odd.feed(
      R"({"type":"response.output_text.delta","output_index":-1,"content_index":0,"delta":"x"})"));
}

TEST(ResponsesWatchTest, UsageAndEndAreSeenInAPassingStream) {
  const auto watch = responses_protocol().stream_watch();
  EXPECT_FALSE(watch->see({.data = "nonsense"}));
  EXPECT_FALSE(watch->see({.data = "{}"}));
  EXPECT_FALSE(watch->began());
  EXPECT_TRUE(watch->see({.data = std::string(kCreated)}));
  EXPECT_TRUE(watch->began());
  EXPECT_TRUE(watch->see({.data = R"({"type":"response.output_text.delta","delta":"four"})"}));
  EXPECT_TRUE(
      watch->see({.data = R"({"type":"response.function_call_arguments.delta","delta":"{}"})"}));
  EXPECT_EQ(watch->output_bytes(), 6U);
  EXPECT_FALSE(watch->is_whole());
  EXPECT_TRUE(watch->see({.data = std::string(kCompleted)}));
  EXPECT_TRUE(watch->is_whole());
  EXPECT_EQ(watch->usage(), (Usage{.input = 3, .output = 4, .reasoning = 2}));
}

TEST(ResponsesWatchTest, FailuresAreSeen) {
  const auto watch = responses_protocol().stream_watch();
  EXPECT_TRUE(watch->see({.data = R"({"type":"error","message":"m","code":"server_error"})"}));
  ASSERT_TRUE(watch->failure());
  EXPECT_EQ(watch->failure()->message, "m");
  EXPECT_FALSE(watch->is_whole());
}

}  // namespace
}  // namespace pons::models
