#include "affinity.h"

#include <gtest/gtest.h>

namespace pons::gateway {
namespace {

using models::Protocol;

std::string affinity(std::string body, Protocol protocol = Protocol::kMessages,
                     std::string_view caller = "key") {
  ModelRequest request{.protocol = protocol, .body = std::move(body)};
  auto facts = models::read_facts(protocol, request.body);
  EXPECT_TRUE(facts) << facts.error().describe();
  if (facts) request.facts = std::move(*facts);
  return affinity_of(request, http::RequestHead(), caller);
}

TEST(AffinityTest, ConversationsWithTheSameLongPromptOfTheSystemAreToldApart) {
  const std::string system = R"({"model":"m","system":")" + std::string(50'000, 's') + R"(",)";
  const auto asking = [&](const std::string& first, const std::string& more = {}) {
    return affinity(system + R"("messages":[{"role":"user","content":")" + first + "\"}" + more +
                    "]}");
  };
  EXPECT_NE(asking("one"), asking("two"));
  EXPECT_EQ(asking("one"), asking("one", R"(,{"role":"assistant","content":"yes"},)"
                                         R"({"role":"user","content":"go on"})"));
}

TEST(AffinityTest, TheMarkOfACacheMovesOnAndTheConversationStays) {
  const auto first = [](const std::string& block) {
    return affinity(R"({"model":"m","messages":[{"role":"user","content":[)" + block + "]}]}");
  };
  const std::string plain = first(R"({"type":"text","text":"hi"})");
  EXPECT_EQ(first(R"({"type":"text","text":"hi","cache_control":{"type":"ephemeral"}})"), plain);
  EXPECT_EQ(
      first(R"({"type":"text","text":"hi", "cache_control":{"type":"ephemeral","ttl":"1h"}})"),
      plain);
  EXPECT_EQ(first(R"({"cache_control":{"type":"ephemeral"},"type":"text","text":"hi"})"), plain);
}

TEST(AffinityTest, EveryProtocolHasAnOpeningAndEveryCallerItsOwn) {
  const auto chat = [](const char* system) {
    return affinity(R"({"model":"m","messages":[{"role":"system","content":")" +
                        std::string(system) + R"("},{"role":"user","content":"hi"}]})",
                    Protocol::kChat);
  };
  EXPECT_EQ(chat("it is nine"), chat("it is ten"));
  EXPECT_NE(affinity(R"({"model":"m","input":"one"})", Protocol::kResponses),
            affinity(R"({"model":"m","input":"two"})", Protocol::kResponses));
  EXPECT_NE(affinity(R"({"model":"m","messages":[]})"),
            affinity(R"({"model":"m","messages":[]})", Protocol::kMessages, "other"));
}

}  // namespace
}  // namespace pons::gateway
