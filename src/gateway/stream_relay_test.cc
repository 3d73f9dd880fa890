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

}  // namespace
}  // namespace pons::gateway
