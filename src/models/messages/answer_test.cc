#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/models/protocol.h"
#include "pons/models/thinking.h"

namespace pons::models {
namespace {

Answer read(std::string_view body) {
  auto answer = messages_protocol().read_answer(body);
  EXPECT_TRUE(answer) << answer.error().describe();
  return answer ? std::move(*answer) : Answer{};
}
Json written(const Answer& answer) {
  return parse_json(messages_protocol().write_answer(answer, {.model = "asked"})).value();
}
Json json(std::string_view text) {
  return parse_json(text).value();
}

constexpr const char* kRich = R"({"id":"msg_1","type":"message","role":"assistant","model":"claude",
  "content":[{"type":"thinking","thinking":"t","signature":"sig"},{"type":"redacted_thinking","data":"d"},
   {"type":"text","text":"x","citations":[{"type":"page_location"}]},
   {"type":"server_tool_use","id":"s","name":"web_search","input":{}},
   {"type":"tool_use","id":"t1","name":"f","input":{"a":1},"caller":{"type":"direct"}}],
  "stop_reason":"tool_use","stop_sequence":null,"container":null,
  "usage":{"input_tokens":10,"cache_creation_input_tokens":30,"cache_read_input_tokens":5,
   "cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":10},
   "output_tokens":7,"output_tokens_details":{"thinking_tokens":0}}})";

TEST(MessagesAnswer, AllThatItHoldsIsRead) {
  const Answer answer = read(kRich);
  EXPECT_EQ(answer.id, "msg_1");
  EXPECT_EQ(answer.model, "claude");
  ASSERT_EQ(answer.parts.size(), 5U);
  EXPECT_EQ(std::get<ThinkingPart>(answer.parts[0].content),
            (ThinkingPart{.text = "t", .proof = "sig"}));
  EXPECT_TRUE(std::get<ThinkingPart>(answer.parts[1].content).redacted);
  EXPECT_EQ(std::get<TextPart>(answer.parts[2].content).citations, R"([{"type":"page_location"}])");
  EXPECT_EQ(std::get<OpaquePart>(answer.parts[3].content).type, "server_tool_use");
  EXPECT_EQ(std::get<ToolCallPart>(answer.parts[4].content).input, R"({"a":1})");
  EXPECT_EQ(answer.stop, Stop::kToolUse);
}

TEST(MessagesAnswer, EachTokenIsCountedOnceAndZeroIsNotMissing) {
  const Usage usage = read(kRich).usage;
  EXPECT_EQ(usage, (Usage{.input = 10,
                          .cache_read = 5,
                          .cache_write = 20,
                          .cache_write_hour = 10,
                          .output = 7,
                          .reasoning = 0}));
  EXPECT_EQ(usage.prompt(), 45);
  EXPECT_EQ(messages_protocol().usage_of(kRich), usage);
  EXPECT_EQ(messages_protocol().usage_of("{}"), Usage{});
  EXPECT_EQ(messages_protocol().usage_of("no"), Usage{});
  EXPECT_EQ(messages_protocol().usage_of(R"({"usage":{"input_tokens":-5,"output_tokens":"7"}})"),
            Usage{});
  EXPECT_EQ(
      messages_protocol().usage_of(R"({"usage":{"cache_creation_input_tokens":9}})").cache_write,
      9);
}

TEST(MessagesAnswer, SearchesThatCostExtraAreCounted) {
  EXPECT_EQ(
      messages_protocol()
          .usage_of(R"({"usage":{"output_tokens":1,"server_tool_use":{"web_search_requests":3}}})")
          .searches,
      3);
}

TEST(MessagesAnswer, WhatIsReadIsWrittenAgain) {
  const Answer answer = read(kRich);
  Answer again = read(messages_protocol().write_answer(answer, {}));
  // Of a call the client is told only what it acts on.
  again.parts[4].extras = answer.parts[4].extras;
  EXPECT_EQ(again, answer);
}

TEST(MessagesAnswer, EveryStopReasonGoesBothWays) {
  const std::vector<std::pair<const char*, Stop>> reasons = {
      {"end_turn", Stop::kEnd},     {"max_tokens", Stop::kMaxTokens},
      {"refusal", Stop::kRefusal},  {"stop_sequence", Stop::kStopSequence},
      {"pause_turn", Stop::kPause}, {"model_context_window_exceeded", Stop::kContextWindow}};
  for (const auto& [reason, stop] : reasons) {
    EXPECT_EQ(written({.stop = stop})["stop_reason"], reason);
    EXPECT_EQ(
        read(R"({"type":"message","content":[],"stop_reason":")" + std::string(reason) + "\"}")
            .stop,
        stop);
  }
  const Answer stopped = read(
      R"({"type":"message","content":[],"stop_reason":"stop_sequence","stop_sequence":"END"})");
  EXPECT_EQ(stopped.stop_sequence, "END");
  EXPECT_EQ(written(stopped)["stop_sequence"], "END");
}

TEST(MessagesAnswer, TheReasonFollowsTheBlocks) {
  Answer answer{.parts = {{ToolCallPart{.id = "a", .name = "f", .input = ""}}}, .stop = Stop::kEnd};
  EXPECT_EQ(written(answer)["stop_reason"], "tool_use");
  EXPECT_EQ(written(answer)["content"][0]["input"], json("{}"));
  EXPECT_EQ(written({.stop = Stop::kToolUse})["stop_reason"], "end_turn");
  EXPECT_EQ(written({.parts = {{RefusalPart{"no"}}}})["stop_reason"], "refusal");
  EXPECT_EQ(written({.parts = {{RefusalPart{"no"}}}})["content"][0],
            json(R"({"type":"text","text":"no"})"));
}

TEST(MessagesAnswer, ArgumentsThatAreNoObjectAreNotLost) {
  Answer answer{.parts = {{ToolCallPart{.id = "a", .name = "f", .input = "{\"x\":"}}}};
  EXPECT_EQ(written(answer)["content"][0]["input"], json(R"({"invalid_json":"{\"x\":"})"));
}

TEST(MessagesAnswer, ThinkingOfAnotherProviderCarriesItsProof) {
  const ThinkingPart theirs{.text = "t", .proof = "{\"id\":1}", .author = Protocol::kResponses};
  const Json block = written({.parts = {{theirs}}})["content"][0];
  EXPECT_EQ(block["type"], "thinking");
  EXPECT_EQ(block["thinking"], "t");
  EXPECT_EQ(carried_proof(std::string(block["signature"])), theirs);
}

TEST(MessagesAnswer, PagesThatOthersCiteAreCitedAndNoProviderSeesThemAgain) {
  const Answer answer{
      .id = "a",
      .model = "m",
      .parts = {{.content =
                     TextPart{.text = "hey",
                              .citations =
                                  R"([{"type":"url_citation","url":"https://x","title":"X"},)"
                                  R"({"type":"file_citation","file_id":"f"}])",
                              .cited_in = Protocol::kResponses}}},
      .usage = {}};
  const std::string page =
      R"({"type":"web_search_result_location","url":"https://x","title":"X","encrypted_index":"pons1.","cited_text":""})";
  const std::string whole = messages_protocol().write_answer(answer, {});
  EXPECT_NE(whole.find("\"citations\":[" + page + "]"), std::string::npos) << whole;
  std::string stream;
  const auto writer = messages_protocol().stream_writer({});
  for (const AnswerEvent& event :
       {AnswerEvent(AnswerBegins{.id = "a", .model = "m", .usage = {}}),
        AnswerEvent(PartBegins{.part = {.content = TextPart{}}}),
        AnswerEvent(CitationCame{.json = R"({"url_citation":{"url":"https://x","title":"X"}})",
                                 .cited_in = Protocol::kChat}),
        AnswerEvent(PartEnds{})})
    writer->take(event, stream);
  EXPECT_NE(stream.find(R"("delta":{"type":"citations_delta","citation":)" + page),
            std::string::npos)
      << stream;
  const auto back = messages_protocol().read_request(
      R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant",)"
      R"("content":[{"type":"text","text":"hey","citations":[)" +
      page +
      R"(,{"type":"char_location","document_index":0}]},{"type":"text","text":"ho","citations":[)" +
      page + R"(]}]}]})");
  ASSERT_TRUE(back);
  const auto text = [&](std::size_t at) {
    return std::get<TextPart>(back->messages[1].parts[at].content).citations;
  };
  EXPECT_EQ(text(0), R"([{"type":"char_location","document_index":0}])");
  EXPECT_EQ(text(1), "");
}

TEST(MessagesAnswer, AModelWithoutANameIsTheOneThatWasAskedFor) {
  EXPECT_EQ(written({})["model"], "asked");
  EXPECT_EQ(written({})["type"], "message");
  EXPECT_EQ(written({})["role"], "assistant");
}

TEST(MessagesAnswer, WhatIsNoAnswerIsRefused) {
  for (const char* body :
       {"", "[]", "{}", R"({"type":"error","error":{}})", R"({"type":"message"})",
        R"({"type":"message","content":[{"type":"text"}]})"})
    EXPECT_FALSE(messages_protocol().read_answer(body)) << body;
}

}  // namespace
}  // namespace pons::models
