#include "stream_relay.h"

#include <gtest/gtest.h>

namespace pons::gateway {
namespace {

using models::Protocol;

constexpr const char* kText =
    "data: "
    "{\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
constexpr const char* kStop =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
constexpr const char* kUsage =
    "data: "
    "{\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n";
constexpr const char* kDone = "data: [DONE]\n\n";

TEST(StreamRelayTest, TheSameProtocolKeepsEveryByte) {
  const auto relay = pass_stream(Protocol::kChat, false);
  std::string out;
  for (const char* event : {": note\n\n", kText, kStop, kUsage, kDone})
    ASSERT_TRUE(relay->take(event, out));
  EXPECT_EQ(out, std::string(": note\n\n") + kText + kStop + kUsage + kDone);
  EXPECT_TRUE(relay->end(out));
  EXPECT_EQ(relay->usage().prompt(), 3);
  EXPECT_EQ(relay->usage().output, 2);
}

TEST(StreamRelayTest, UsageThatWasNotAskedForIsCountedAndNotPassedOn) {
  const auto relay = pass_stream(Protocol::kChat, true);
  std::string out;
  for (const char* event : {kText, kStop, kUsage, kDone}) ASSERT_TRUE(relay->take(event, out));
  EXPECT_EQ(out, std::string(kText) + kStop + kDone);
  EXPECT_EQ(relay->usage().output, 2);
}

TEST(StreamRelayTest, AStreamWithoutItsEndIsBroken) {
  const auto relay = pass_stream(Protocol::kChat, false);
  std::string out;
  ASSERT_TRUE(relay->take(kText, out));
  EXPECT_FALSE(relay->end(out));
  EXPECT_FALSE(pass_stream(Protocol::kMessages, false)->take("data: nonsense\n\n", out));
}

TEST(StreamRelayTest, OnlyTheLastWordOfItsProtocolSealsAStream) {
  const auto relay = pass_stream(Protocol::kChat, false);
  models::Request request{.protocol = Protocol::kMessages, .model = "m"};
  const models::ToolNames names(request, Protocol::kChat);
  const auto translated = translate_stream(Protocol::kChat, Protocol::kMessages, request, names);
  std::string out;
  for (StreamRelay* const one : {relay.get(), translated.get()}) {
    for (const char* event : {kText, kStop, kUsage}) {
      ASSERT_TRUE(one->take(event, out));
      EXPECT_FALSE(one->is_sealed()) << event;
    }
    ASSERT_TRUE(one->take(kDone, out));
    EXPECT_TRUE(one->is_sealed());
  }
  const auto messages = pass_stream(Protocol::kMessages, false);
  ASSERT_TRUE(
      messages->take("data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n", out));
  ASSERT_TRUE(messages->take("data: {\"type\":\"message_delta\",\"delta\":{}}\n\n", out));
  EXPECT_FALSE(messages->is_sealed());
  ASSERT_TRUE(messages->take("data: {\"type\":\"message_stop\"}\n\n", out));
  EXPECT_TRUE(messages->is_sealed());
}

TEST(StreamRelayTest, WhatServersSayBesideAnAnswerPasses) {
  std::string out;
  const auto chat = pass_stream(Protocol::kChat, false);
  for (const char* event : {"data: {\"type\":\"ping\"}\n\n", kText, kStop, kDone})
    ASSERT_TRUE(chat->take(event, out)) << event;
  EXPECT_TRUE(chat->end(out));
  const auto messages = pass_stream(Protocol::kMessages, false);
  for (const char* event : {"data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n",
                            "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                            "data: {\"type\":\"message_stop\"}\n\n", kDone})
    ASSERT_TRUE(messages->take(event, out)) << event;
  EXPECT_TRUE(messages->end(out));
}

TEST(StreamRelayTest, AnotherProtocolGetsItsOwnEvents) {
  models::Request request{.protocol = Protocol::kMessages, .model = "m"};
  const models::ToolNames names(request, Protocol::kChat);
  const auto relay = translate_stream(Protocol::kChat, Protocol::kMessages, request, names);
  std::string out;
  for (const char* event : {kText, kStop, kUsage, kDone}) ASSERT_TRUE(relay->take(event, out));
  ASSERT_TRUE(relay->end(out));
  EXPECT_NE(out.find("event: message_start"), std::string::npos);
  EXPECT_NE(out.find("\"text\":\"Hi\""), std::string::npos);
  EXPECT_NE(out.find("event: message_stop"), std::string::npos);
  EXPECT_EQ(relay->usage().output, 2);
}

// The events of one call of a tool in each protocol; those with a piece of its arguments come in
// the middle.
struct ToolStream {
  Protocol protocol;
  std::vector<std::string> begin;
  std::string piece;  // "#" stands for the piece
};

std::vector<ToolStream> tool_streams() {
  return {
      {Protocol::kMessages,
       {R"(data: {"type":"message_start","message":{"id":"m","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}})",
        R"(data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}})"},
       R"(data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"#"}})"},
      {Protocol::kChat,
       {R"(data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]}}]})"},
       R"(data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"#"}}]}}]})"},
      {Protocol::kResponses,
       {R"(data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"m","status":"in_progress","output":[]}})",
        R"(data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":""}})"},
       R"(data: {"type":"response.function_call_arguments.delta","sequence_number":2,"item_id":"fc_1","output_index":0,"delta":"#"})"}};
}

TEST(StreamRelayTest, PiecesOfArgumentsAreNotHeldBackInAnyDirection) {
  for (const ToolStream& from : tool_streams())
    for (const ToolStream& to : tool_streams()) {
      if (from.protocol == to.protocol) continue;
      models::Request request{.protocol = to.protocol, .model = "m"};
      request.tools.push_back({.name = "f", .schema = "{}"});
      const models::ToolNames names(request, from.protocol);
      const auto relay = translate_stream(from.protocol, to.protocol, request, names);
      std::string out;
      for (const std::string& event : from.begin) ASSERT_TRUE(relay->take(event + "\n\n", out));
      for (const char* piece : {"{\\\"a", "b\\\":", "1"}) {
        std::string event = from.piece;
        event.replace(event.find('#'), 1, piece);
        out.clear();
        ASSERT_TRUE(relay->take(event + "\n\n", out));
        EXPECT_NE(out.find(piece), std::string::npos)
            << static_cast<int>(from.protocol) << " to " << static_cast<int>(to.protocol) << ": "
            << out;
      }
    }
}

}  // namespace
}  // namespace pons::gateway
