#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/models/protocol.h"
#include "pons/models/thinking.h"

namespace pons::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Reading {
  AnswerBuilder built;
  std::vector<std::string> grown;  // the deltas as they came
  int began = 0;
  std::string error;
};

Reading read(const std::vector<std::string>& events) {
  Reading reading;
  const auto reader = messages_protocol().stream_reader();
  const AnswerSink sink = [&](const AnswerEvent& event) {
    if (const auto* grows = std::get_if<PartGrows>(&event)) reading.grown.emplace_back(grows->text);
    if (std::holds_alternative<AnswerBegins>(event)) ++reading.began;
    reading.built.take(event);
  };
  for (const std::string& data : events) {
    if (const auto fed = reader->feed({.data = data}, sink); !fed) {
      reading.error = fed.error().message;
      return reading;
    }
  }
  if (const auto finished = reader->finish(sink); !finished)
    reading.error = finished.error().message;
  return reading;
}

const std::string kStart =
    R"({"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],
    "model":"claude","stop_reason":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":6,
    "cache_creation":{"ephemeral_1h_input_tokens":4,"ephemeral_5m_input_tokens":2},"output_tokens":1}}})";
const std::string kEnd =
    R"({"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}})";
const std::string kStop = R"({"type":"message_stop"})";

std::string begins(int index, const std::string& block) {
  return R"({"type":"content_block_start","index":)" + std::to_string(index) +
         R"(,"content_block":)" + block + "}";
}
std::string delta(int index, const std::string& what) {
  return R"({"type":"content_block_delta","index":)" + std::to_string(index) + R"(,"delta":)" +
         what + "}";
}
std::string ends(int index) {
  return R"({"type":"content_block_stop","index":)" + std::to_string(index) + "}";
}
const std::string kText = R"({"type":"text","text":""})";

TEST(MessagesStreamIn, AnAnswerIsBuiltFromItsEvents) {
  Reading reading =
      read({kStart, R"({"type":"ping"})",
            begins(0, R"({"type":"thinking","thinking":"","signature":""})"),
            delta(0, R"({"type":"thinking_delta","thinking":"hm"})"),
            delta(0, R"({"type":"signature_delta","signature":"sig"})"), ends(0), begins(1, kText),
            delta(1, R"({"type":"text_delta","text":"He"})"),
            delta(1, R"({"type":"text_delta","text":"llo"})"),
            delta(1, R"({"type":"citations_delta","citation":{"type":"c"}})"), ends(1),
            begins(2, R"({"type":"tool_use","id":"t1","name":"f","input":{}})"),
            delta(2, R"({"type":"input_json_delta","partial_json":""})"),
            delta(2, R"({"type":"input_json_delta","partial_json":"{\"a\""})"),
            delta(2, R"({"type":"input_json_delta","partial_json":":1}"})"), ends(2), kEnd, kStop});
  EXPECT_EQ(reading.error, "");
  ASSERT_TRUE(reading.built.is_whole());
  const Answer& answer = reading.built.answer();
  EXPECT_EQ(answer.id, "msg_1");
  ASSERT_EQ(answer.parts.size(), 3U);
  EXPECT_EQ(answer.parts[0], Part{(ThinkingPart{.text = "hm", .proof = "sig"})});
  EXPECT_EQ(answer.parts[1], Part{(TextPart{.text = "Hello", .citations = R"([{"type":"c"}])"})});
  EXPECT_EQ(answer.parts[2], Part{(ToolCallPart{.id = "t1", .name = "f", .input = R"({"a":1})"})});
  // Passed on as they come.
  EXPECT_THAT(reading.grown, ElementsAre("hm", "He", "llo", "{\"a\"", ":1}"));
  EXPECT_EQ(answer.usage,
            (Usage{.input = 10, .cache_write = 2, .cache_write_hour = 4, .output = 9}));
}

TEST(MessagesStreamIn, ACallWithoutInputHasAnEmptyObject) {
  const std::string call = begins(0, R"({"type":"tool_use","id":"t","name":"f","input":{}})");
  EXPECT_THAT(read({kStart, call, ends(0), kEnd, kStop}).grown, ElementsAre("{}"));
  // Some servers say it all at the beginning.
  const std::string full = begins(0, R"({"type":"tool_use","id":"t","name":"f","input":{"a":1}})");
  EXPECT_THAT(read({kStart, full, ends(0), kEnd, kStop}).grown, ElementsAre(R"({"a":1})"));
}

TEST(MessagesStreamIn, BlocksOfServerToolsComeWhole) {
  Reading reading = read(
      {kStart, begins(0, R"({"type":"server_tool_use","id":"s","name":"web_search","input":{}})"),
       delta(0, R"({"type":"input_json_delta","partial_json":"{\"query\":\n"})"),
       delta(0, R"({"type":"input_json_delta","partial_json":"\"q\"}"})"), ends(0), kEnd, kStop});
  ASSERT_EQ(reading.error, "");
  EXPECT_EQ(std::get<OpaquePart>(reading.built.answer().parts[0].content).json,
            R"({"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}})");
}

TEST(MessagesStreamIn, UnknownEventsAndDoubleBeginningsAreHarmless) {
  Reading reading =
      read({R"({"type":"vendor_event"})", kStart, kStart, begins(0, kText),
            delta(0, R"({"type":"new_delta","x":1})"), ends(0), kEnd, kStop, "[DONE]"});
  EXPECT_EQ(reading.error, "");
  EXPECT_EQ(reading.began, 1);
}

TEST(MessagesStreamIn, CountsNeverFall) {
  Reading reading = read(
      {kStart,
       R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":0,"cache_creation_input_tokens":6,"output_tokens":3}})",
       kStop});
  EXPECT_EQ(reading.built.answer().usage,
            (Usage{.input = 10, .cache_write = 2, .cache_write_hour = 4, .output = 3}));
}

TEST(MessagesStreamIn, AStreamThatIsCutIsNoAnswer) {
  for (const auto& events : std::vector<std::vector<std::string>>{
           {}, {kStart}, {kStart, begins(0, kText)}, {kStart, begins(0, kText), ends(0), kEnd}})
    EXPECT_THAT(read(events).error, HasSubstr("ended before the answer was whole"));
}

TEST(MessagesStreamIn, WhatIsOutOfOrderIsRefused) {
  const std::string text = delta(0, R"({"type":"text_delta","text":"x"})");
  for (const auto& events : std::vector<std::vector<std::string>>{
           {begins(0, kText)},
           {kStart, text},
           {kStart, ends(0)},
           {kStart, begins(0, kText), begins(1, kText)},
           {kStart, begins(1, kText), text},
           {kStart, begins(0, kText), delta(0, R"({"type":"thinking_delta","thinking":"x"})")},
           {kStart, begins(0, kText),
            delta(0, R"({"type":"input_json_delta","partial_json":"x"})")},
           {kStart, begins(0, kText), kStop},
           {kStop},
           {kEnd},
           {"no json"},
           {"[]"}})
    EXPECT_NE(read(events).error, "") << events.back();
}

TEST(MessagesStreamIn, AFailureOfTheProviderIsAnEvent) {
  Reading reading = read(
      {kStart, R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})"});
  ASSERT_TRUE(reading.built.failure());
  EXPECT_EQ(reading.built.failure()->kind, Failing::kOverloaded);
  EXPECT_EQ(reading.built.failure()->message, "Overloaded");
  EXPECT_FALSE(reading.built.is_whole());
}

// What the client sees, event by event.
struct Seen {
  std::vector<std::string> names;
  std::vector<Json> data;
};
Seen see(const std::string& wire) {
  Seen seen;
  http::EventStreamParser parser;
  const auto fed = parser.feed(wire, [&](const http::ServerEvent& event) {
    seen.names.push_back(event.event);
    seen.data.push_back(parse_json(event.data).value());
    EXPECT_EQ(seen.data.back()["type"], event.event);
  });
  EXPECT_TRUE(fed);
  return seen;
}
std::string write(const std::vector<AnswerEvent>& events) {
  const auto writer = messages_protocol().stream_writer({.model = "asked"});
  std::string out;
  for (const AnswerEvent& event : events) writer->take(event, out);
  return out;
}
Json json(std::string_view text) {
  return parse_json(text).value();
}

TEST(MessagesStreamOut, EventsComeInTheOrderOfTheService) {
  const Answer answer{
      .id = "msg_1",
      .model = "m",
      .parts = {{TextPart{"Hi"}}, {ToolCallPart{.id = "t", .name = "f", .input = "{}"}}},
      .stop = Stop::kToolUse,
      .usage = {.input = 3, .output = 4}};
  const Seen seen = see(write(events_of(answer)));
  EXPECT_THAT(seen.names,
              ElementsAre("message_start", "content_block_start", "content_block_delta",
                          "content_block_stop", "content_block_start", "content_block_delta",
                          "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(seen.data[0]["message"]["content"], Json::array());
  EXPECT_TRUE(seen.data[0]["message"]["stop_reason"].is_null());
  EXPECT_EQ(seen.data[1]["content_block"], json(R"({"type":"text","text":""})"));
  EXPECT_EQ(seen.data[2]["delta"], json(R"({"type":"text_delta","text":"Hi"})"));
  EXPECT_EQ(seen.data[4]["index"], 1);
  EXPECT_EQ(seen.data[4]["content_block"],
            json(R"({"type":"tool_use","id":"t","name":"f","input":{}})"));
  EXPECT_EQ(seen.data[5]["delta"], json(R"({"type":"input_json_delta","partial_json":"{}"})"));
  EXPECT_EQ(seen.data[7]["delta"], json(R"({"stop_reason":"tool_use","stop_sequence":null})"));
  EXPECT_EQ(seen.data[7]["usage"]["output_tokens"], 4);
}

TEST(MessagesStreamOut, AnAnswerOfToolsAloneStartsAtZero) {
  const Answer answer{.parts = {{OpaquePart{Protocol::kResponses, "web_search_call", "{}"}},
                                {ToolCallPart{.id = "t", .name = "f", .input = "{}"}}}};
  const Seen seen = see(write(events_of(answer)));
  EXPECT_EQ(seen.names[1], "content_block_start");
  EXPECT_EQ(seen.data[1]["index"], 0);
  EXPECT_EQ(seen.data.back(), json(R"({"type":"message_stop"})"));
  EXPECT_EQ(seen.data[seen.data.size() - 2]["delta"]["stop_reason"], "tool_use");
}

TEST(MessagesStreamOut, TheMessageStartsOnce) {
  const Seen seen = see(write({AnswerBegins{.id = "a"}, AnswerBegins{.id = "a"}, AnswerEnds{}}));
  EXPECT_THAT(seen.names, ElementsAre("message_start", "message_delta", "message_stop"));
}

TEST(MessagesStreamOut, AKeepAliveMayComeBeforeTheFirstEvent) {
  std::string out;
  messages_protocol().stream_writer({})->keep_alive(out);
  EXPECT_EQ(out, "event: ping\ndata: {\"type\": \"ping\"}\n\n");
}

TEST(MessagesStreamOut, AFailureEndsTheStreamWithoutACleanEnd) {
  const Seen seen =
      see(write({AnswerBegins{.id = "a"}, PartBegins{{TextPart{}}}, PartGrows{"x"},
                 Failure{.kind = Failing::kUpstream, .message = "cut"}, PartEnds{}, AnswerEnds{}}));
  EXPECT_EQ(seen.names.back(), "error");
  EXPECT_EQ(seen.data.back(),
            json(R"({"type":"error","error":{"type":"api_error","message":"cut"}})"));
  EXPECT_THAT(seen.names, testing::Not(testing::Contains("message_stop")));
}

TEST(MessagesStreamOut, ThinkingOfAnotherProviderIsSignedWithItsCarriedProof) {
  const ThinkingPart begun{.text = "", .author = Protocol::kResponses};
  const Seen seen =
      see(write({AnswerBegins{}, PartBegins{{begun}}, PartGrows{"be"}, PartGrows{"cause"},
                 ProofCame{"{\"id\":1}"}, PartEnds{}, AnswerEnds{}}));
  EXPECT_EQ(seen.data[2]["delta"]["thinking"], "be");
  ASSERT_EQ(seen.data[4]["delta"]["type"], "signature_delta");
  EXPECT_EQ(
      carried_proof(std::string(seen.data[4]["delta"]["signature"])),
      (ThinkingPart{.text = "because", .proof = "{\"id\":1}", .author = Protocol::kResponses}));
}

TEST(MessagesStreamOut, AnthropicsOwnThinkingPassesByteForByte) {
  const Answer answer{.parts = {{ThinkingPart{.text = "t\n", .proof = "Eq+/=="}},
                                {ThinkingPart{.proof = "blob", .redacted = true}}}};
  const Seen seen = see(write(events_of(answer)));
  EXPECT_EQ(seen.data[2]["delta"], json(R"({"type":"thinking_delta","thinking":"t\n"})"));
  EXPECT_EQ(seen.data[3]["delta"], json(R"({"type":"signature_delta","signature":"Eq+/=="})"));
  EXPECT_EQ(seen.data[5]["content_block"], json(R"({"type":"redacted_thinking","data":"blob"})"));
}

TEST(MessagesStreamOut, WhatIsWrittenIsReadAgain) {
  const Answer answer{
      .id = "msg_1",
      .model = "m",
      .parts = {{ThinkingPart{.text = "t", .proof = "s"}},
                {TextPart{.text = "x\r\n\u2028", .citations = R"([{"type":"a"},{"type":"b"}])"}},
                {OpaquePart{Protocol::kMessages, "web_search_tool_result",
                            R"({"type":"web_search_tool_result","content":[]})"}},
                {ToolCallPart{.id = "t", .name = "f", .input = "{\"a\": 1}"}}},
      .stop = Stop::kToolUse,
      .usage = {.input = 1,
                .cache_read = 2,
                .cache_write = 3,
                .cache_write_hour = 4,
                .output = 5,
                .reasoning = 0}};
  std::vector<std::string> events;
  for (const Json& data : see(write(events_of(answer))).data) events.push_back(dump_json(data));
  Reading reading = read(events);
  EXPECT_EQ(reading.error, "");
  EXPECT_EQ(reading.built.answer(), answer);
}

TEST(MessagesWatch, UsageAndTheEndAreSeenInPassing) {
  const auto watch = messages_protocol().stream_watch();
  EXPECT_FALSE(watch->began());
  for (const std::string& data :
       {kStart, begins(0, kText), delta(0, R"({"type":"text_delta","text":"four"})"),
        delta(0, R"({"type":"unknown"})"), ends(0), kEnd})
    EXPECT_TRUE(watch->see({.data = data})) << data;
  EXPECT_TRUE(watch->began());
  EXPECT_FALSE(watch->is_whole());
  EXPECT_EQ(watch->output_bytes(), 4U);
  EXPECT_TRUE(watch->see({.data = kStop}));
  EXPECT_TRUE(watch->is_whole());
  EXPECT_EQ(watch->usage(),
            (Usage{.input = 10, .cache_write = 2, .cache_write_hour = 4, .output = 9}));
  EXPECT_FALSE(watch->failure());
}

TEST(MessagesWatch, FailuresAreSeenAndGarbageIsTold) {
  const auto watch = messages_protocol().stream_watch();
  EXPECT_FALSE(watch->see({.data = "garbage"}));
  EXPECT_FALSE(watch->see({.data = "{}"}));
  EXPECT_FALSE(watch->see({.data = "[]"}));
  EXPECT_TRUE(watch->see(
      {.data = R"({"type":"error","error":{"type":"overloaded_error","message":"o"}})"}));
  ASSERT_TRUE(watch->failure());
  EXPECT_EQ(watch->failure()->kind, Failing::kOverloaded);
  EXPECT_FALSE(watch->is_whole());
}

}  // namespace
}  // namespace pons::models
