#include "answer_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::brain {
namespace {

std::string event(const std::string& data) {
  return "event: x\ndata: " + data + "\n\n";
}
const std::string kStart = event(
    R"({"type":"message_start","message":{"model":"m1","usage":{"input_tokens":7,"cache_read_input_tokens":3,"cache_creation_input_tokens":2,"output_tokens":1}}})");
const std::string kStop = event(R"({"type":"message_stop"})");

std::string block(int index, const std::string& start, const std::vector<std::string>& deltas) {
  std::string all = event(R"({"type":"content_block_start","index":)" + std::to_string(index) +
                          R"(,"content_block":)" + start + "}");
  for (const std::string& delta : deltas)
    all += event(R"({"type":"content_block_delta","index":)" + std::to_string(index) +
                 R"(,"delta":)" + delta + "}");
  return all + event(R"({"type":"content_block_stop","index":)" + std::to_string(index) + "}");
}
std::string text(int index, const std::string& words) {
  return block(index, R"({"type":"text","text":""})",
               {R"({"type":"text_delta","text":)" + dump_json(words) + "}"});
}
std::string call(int index, const std::string& id, const std::vector<std::string>& pieces) {
  std::vector<std::string> deltas;
  for (const std::string& piece : pieces)
    deltas.push_back(R"({"type":"input_json_delta","partial_json":)" + dump_json(piece) + "}");
  return block(index, R"({"type":"tool_use","id":")" + id + R"(","name":"run","input":{}})",
               deltas);
}

struct Reading {
  Result<void> fed;
  bool is_whole = false;
  Json content;
  session::Answer answer;
  std::string heard;
  std::vector<std::pair<std::int64_t, std::string>> tools;
  std::string error_message;
};

Reading read(const std::string& stream, std::size_t piece_bytes = std::string::npos) {
  Reading reading;
  const session::Listener listener{
      .on_text = [&](std::string_view words) { reading.heard += words; },
      .on_tool = [&](std::int64_t at,
                     std::string_view tool) { reading.tools.emplace_back(at, tool); }};
  AnswerReader reader(listener);
  for (std::size_t at = 0; at < stream.size() && reading.fed;) {
    const std::string_view piece = std::string_view(stream).substr(at, piece_bytes);
    reading.fed = reader.feed(piece);
    at += piece.size();
  }
  reading.is_whole = reader.is_whole();
  reading.error_message = reader.error_message();
  if (reading.fed && reading.is_whole) {
    reading.answer = reader.take();
    reading.content = *parse_json(reading.answer.content);
  }
  return reading;
}

TEST(AnswerReader, PutsAnAnswerTogetherHoweverItIsCut) {
  const std::string stream =
      kStart + event(R"({"type":"ping"})") + text(0, "Grüße") +
      call(1, "t1", {"", R"({"comm)", R"(and":"ls"})"}) +
      event(
          R"({"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}})") +
      kStop;
  for (const std::size_t piece : {std::string::npos, std::size_t{1}, std::size_t{7}}) {
    const Reading reading = read(stream, piece);
    ASSERT_TRUE(reading.fed && reading.is_whole);
    EXPECT_EQ(
        reading.answer.content,
        R"([{"type":"text","text":"Grüße"},{"type":"tool_use","id":"t1","name":"run","input":{"command":"ls"}}])");
    EXPECT_EQ(reading.answer.stop_reason, "tool_use");
    EXPECT_EQ(reading.answer.model, "m1");
    EXPECT_EQ(reading.answer.usage.input, 7);
    EXPECT_EQ(reading.answer.usage.cache_read, 3);
    EXPECT_EQ(reading.answer.usage.cache_write, 2);
    EXPECT_EQ(reading.answer.usage.output, 9);
    EXPECT_EQ(reading.heard, "Grüße");
    ASSERT_EQ(reading.tools.size(), 1U);
    EXPECT_EQ(reading.tools[0], std::pair(std::int64_t{1}, std::string("run")));
  }
}

TEST(AnswerReader, ACallIsToldOfByItsPlaceInWhatIsLeftOfTheAnswer) {
  const Reading reading = read(kStart + text(0, " \n") + call(1, "t1", {"{}"}) + text(2, "so") +
                               text(3, "") + call(4, "t2", {"{}"}) + kStop);
  ASSERT_TRUE(reading.is_whole);
  ASSERT_EQ(reading.content.size(), 3U);
  ASSERT_EQ(reading.tools.size(), 2U);
  for (const auto& [at, tool] : reading.tools)
    EXPECT_EQ(reading.content.at(static_cast<std::size_t>(at)).at("type"), "tool_use") << at;
}

TEST(AnswerReader, ThinkingKeepsItsSignature) {
  const Reading reading = read(kStart +
                               block(0, R"({"type":"thinking","thinking":""})",
                                     {R"({"type":"thinking_delta","thinking":"hm"})",
                                      R"({"type":"signature_delta","signature":"sig"})"}) +
                               kStop);
  ASSERT_TRUE(reading.is_whole);
  EXPECT_EQ(reading.content[0].at("thinking"), "hm");
  EXPECT_EQ(reading.content[0].at("signature"), "sig");
  EXPECT_EQ(reading.heard, "") << "thoughts are not said";
}

TEST(AnswerReader, ArgumentsThatAreNoObjectBecomeOne) {
  for (const char* partial :
       {"{\"comm", "[1]", "7", "\"ls\"", "nonsense", R"({"a":1,"a":2})", R"({"a":"\ud800"})"}) {
    const Reading reading = read(kStart + call(0, "t", {partial}) + kStop);
    ASSERT_TRUE(reading.is_whole) << partial;
    ASSERT_TRUE(reading.content[0].at("input").is_object()) << partial;
    EXPECT_EQ(reading.content[0].at("input").at("unreadable"), partial);
  }
  const std::string deep = R"({"a":)" + std::string(60, '[') + std::string(60, ']') + "}";
  EXPECT_TRUE(
      read(kStart + call(0, "t", {deep}) + kStop).content[0].at("input").contains("unreadable"));
  const Reading odd = read(
      kStart + block(0, R"({"type":"tool_use","id":"t","name":"run","input":"ls"})", {}) + kStop);
  EXPECT_TRUE(odd.content[0].at("input").is_object());
  const Reading none =
      read(kStart + block(0, R"({"type":"tool_use","id":"t","name":"run"})", {}) + kStop);
  EXPECT_EQ(none.content[0].at("input"), Json::object());
}

TEST(AnswerReader, TextsOfNothingAreLeftOut) {
  const Reading reading = read(kStart + text(0, "") + text(1, " \n") + text(2, "a") + kStop);
  ASSERT_TRUE(reading.is_whole);
  EXPECT_EQ(reading.content.size(), 1U);
}

TEST(AnswerReader, WhatMakesNoSenseIsRefused) {
  const std::vector<std::pair<const char*, std::string>> cases = {
      {"no beginning", text(0, "a")},
      {"two beginnings", kStart + kStart},
      {"no JSON", kStart + event("{")},
      {"a part out of order", kStart + text(1, "a")},
      {"a part twice", kStart + text(0, "a") + text(0, "b")},
      {"a piece of no part",
       kStart +
           event(
               R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}})")},
      {"a negative part",
       kStart + event(R"({"type":"content_block_start","index":-1,"content_block":{}})")},
      {"a part that is none",
       kStart + event(R"({"type":"content_block_start","index":0,"content_block":7})")},
      {"a call without an id", kStart + block(0, R"({"type":"tool_use","name":"run"})", {})},
      {"a call without a name", kStart + block(0, R"({"type":"tool_use","id":"t"})", {})},
      {"two calls of one id", kStart + call(0, "t", {}) + call(1, "t", {})},
      {"not UTF-8", kStart + event("{\"type\":\"\xFF\"}")},
  };
  for (const auto& [what, stream] : cases) {
    const Reading reading = read(stream + kStop);
    EXPECT_FALSE(reading.fed) << what;
  }
}

TEST(AnswerReader, AnAnswerWithoutEndIsNotHeldInMemory) {
  std::string stream = kStart + block(0, R"({"type":"text","text":""})", {});
  const std::string delta =
      event(R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":")" +
            std::string(100'000, 'x') + "\"}}");
  for (int i = 0; i < 50; ++i) stream += delta;
  EXPECT_FALSE(read(stream).fed);
  std::string many = kStart;
  for (int i = 0; i < 1'001; ++i) many += text(i, "a");
  EXPECT_FALSE(read(many).fed);
}

TEST(AnswerReader, AnErrorInTheStreamIsReported) {
  const Reading reading =
      read(kStart + text(0, "half") +
           event(R"({"type":"error","error":{"type":"overloaded_error","message":"later"}})"));
  EXPECT_TRUE(reading.fed);  // its cost may still come
  EXPECT_FALSE(reading.is_whole);
  EXPECT_EQ(reading.error_message, "later");
}

TEST(AnswerReader, AnAnswerThatBreaksOffIsNotWhole) {
  const Reading reading = read(kStart + text(0, "half"));
  EXPECT_TRUE(reading.fed);
  EXPECT_FALSE(reading.is_whole);
}

TEST(AnswerReader, NumbersThatCannotBeAreHeldInBounds) {
  const Reading reading = read(
      event(
          R"({"type":"message_start","message":{"model":7,"usage":{"input_tokens":-5,"output_tokens":9000000000000000000,"cache_read_input_tokens":1.5}}})") +
      kStop);
  ASSERT_TRUE(reading.is_whole);
  EXPECT_EQ(reading.answer.usage.input, 0);
  EXPECT_EQ(reading.answer.usage.output, 1'000'000'000'000'000);
  EXPECT_EQ(reading.answer.usage.cache_read, 0);
  EXPECT_EQ(reading.answer.model, "");
}

}  // namespace
}  // namespace pons::brain
