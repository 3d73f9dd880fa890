#include "pons/models/lost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pons::models {
namespace {

Omitted lost_of(const ProtocolText& protocol, std::string_view body) {
  const auto request = protocol.read_request(body);
  EXPECT_TRUE(request) << request.error().describe();
  Omitted omitted;
  if (request) name_what_is_lost(*request, omitted);
  return omitted;
}

TEST(LostTest, WhatOnlyTheOwnProtocolKnowsOfMessagesAndToolsIsNamedOnce) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(lost_of(chat_protocol(),
                      R"({"model":"m","messages":[{"role":"user","name":"ana","content":"hi"},)"
                      R"({"role":"user","name":"ben","content":"ho"}]})"),
              ElementsAre("name"));
  EXPECT_THAT(
      lost_of(messages_protocol(),
              R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[)"
              R"({"name":"f","input_schema":{"type":"object"},"input_examples":[{"a":1}],)"
              R"("defer_loading":true}]})"),
      ElementsAre("input_examples", "defer_loading"));
  EXPECT_THAT(lost_of(responses_protocol(),
                      R"({"model":"m","input":"hi","tools":[{"type":"function","name":"f",)"
                      R"("parameters":{"type":"object"},"defer_loading":true}]})"),
              ElementsAre("defer_loading"));
  EXPECT_THAT(lost_of(messages_protocol(),
                      R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":[)"
                      R"({"type":"text","text":"hi","future":null}]}]})"),
              IsEmpty());
}

TEST(LostTest, CitationsThatAreNotOfPagesAreNamed) {
  const auto lost = [](std::string citations, Protocol cited_in, Protocol client) {
    Omitted omitted;
    name_what_is_lost({.id = {},
                       .model = {},
                       .parts = {{.content = TextPart{.text = "a",
                                                      .citations = std::move(citations),
                                                      .cited_in = cited_in}}},
                       .usage = {}},
                      client, omitted);
    return omitted;
  };
  using enum Protocol;
  const std::string file = R"([{"type":"file_citation","file_id":"f"}])";
  EXPECT_THAT(lost(file, kResponses, kMessages), ::testing::ElementsAre("citations"));
  EXPECT_THAT(lost(file, kResponses, kResponses), ::testing::IsEmpty());
  EXPECT_THAT(lost(R"([{"type":"url_citation","url":"https://x"}])", kResponses, kMessages),
              ::testing::IsEmpty());
  EXPECT_THAT(
      lost(R"([{"type":"url_citation","url_citation":{"url":"https://x"}}])", kChat, kMessages),
      ::testing::IsEmpty());
}

}  // namespace
}  // namespace pons::models
