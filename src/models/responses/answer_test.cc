#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "json_node.h"
#include "pons/models/protocol.h"
#include "pons/models/thinking.h"

namespace pons::models {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kWhole = R"({"id":"resp_1","object":"response","created_at":1,
 "status":"completed","error":null,"incomplete_details":null,"model":"gpt-x","output":[
 {"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],
  "encrypted_content":"EE"},
 {"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[
  {"type":"output_text","text":"hi","annotations":[],"logprobs":[]}]},
 {"id":"ws_1","type":"web_search_call","status":"completed"},
 {"id":"fc_1","type":"function_call","call_id":"c1","name":"f","namespace":"s",
  "arguments":"{\"a\":1}","status":"completed"},
 {"id":"ctc_1","type":"custom_tool_call","call_id":"c2","name":"p","input":"raw"}],
 "usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":10},
  "output_tokens":20,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":120}})";

Answer read(std::string_view body) {
  auto answer = responses_protocol().read_answer(body);
  EXPECT_TRUE(answer) << answer.error().describe();
  return answer ? *answer : Answer{};
}

TEST(ResponsesAnswerTest, AWholeAnswerIsRead) {
  const Answer answer = read(kWhole);
  EXPECT_EQ(answer.id, "resp_1");
  EXPECT_EQ(answer.model, "gpt-x");
  EXPECT_EQ(answer.stop, Stop::kToolUse);
  ASSERT_EQ(answer.parts.size(), 5U);
  EXPECT_EQ(std::get<ThinkingPart>(answer.parts[0].content).proof,
            R"({"id":"rs_1","encrypted_content":"EE"})");
  EXPECT_EQ(std::get<TextPart>(answer.parts[1].content).text, "hi");
  EXPECT_EQ(std::get<OpaquePart>(answer.parts[2].content).type, "web_search_call");
  EXPECT_EQ(std::get<ToolCallPart>(answer.parts[3].content).space, "s");
  EXPECT_TRUE(std::get<ToolCallPart>(answer.parts[4].content).free_form);
}

TEST(ResponsesAnswerTest, EachTokenIsCountedOnceAndAnExplicitZeroIsSaid) {
  const Usage usage = read(kWhole).usage;
  EXPECT_EQ(usage, (Usage{.input = 30,
                          .cache_read = 60,
                          .cache_write = 10,
                          .output = 20,
                          .reasoning = 0,
                          .searches = 1}));
  EXPECT_EQ(responses_protocol().usage_of(kWhole), usage);
  EXPECT_EQ(responses_protocol().usage_of("nonsense"), Usage{});
  EXPECT_EQ(responses_protocol().usage_of(R"({"usage":{"input_tokens":5}})").reasoning,
            std::nullopt);
}

TEST(ResponsesAnswerTest, WhyAnAnswerStoppedIsRead) {
  const auto stop = [](std::string_view tail) {
    return read(R"({"id":"r","model":"m","output":[],)" + std::string(tail) + "}").stop;
  };
  EXPECT_EQ(stop(R"("status":"completed")"), Stop::kEnd);
  EXPECT_EQ(stop(R"("status":"incomplete","incomplete_details":{"reason":"max_output_tokens"})"),
            Stop::kMaxTokens);
  EXPECT_EQ(stop(R"("status":"incomplete","incomplete_details":{"reason":"content_filter"})"),
            Stop::kRefusal);
  EXPECT_EQ(read(R"({"status":"completed","output":[{"type":"message","content":[
    {"type":"refusal","refusal":"no"}]}]})")
                .stop,
            Stop::kRefusal);
}

TEST(ResponsesAnswerTest, AFailedOrUnfinishedAnswerIsNone) {
  const auto failed = responses_protocol().read_answer(
      R"({"status":"failed","error":{"code":"server_error","message":"boom"},"output":[]})");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "boom");
  EXPECT_FALSE(responses_protocol().read_answer(R"({"status":"queued","output":[]})"));
  EXPECT_FALSE(responses_protocol().read_answer(R"({"status":"completed"})"));
}

TEST(ResponsesAnswerTest, AWholeAnswerIsWrittenAndReadAgain) {
  const Answer answer = read(kWhole);
  const Answer again = read(responses_protocol().write_answer(answer, Request{}));
  EXPECT_EQ(answer, again);
}

TEST(ResponsesAnswerTest, TheResponseObjectHasAllThatClientsRequire) {
  Request request{.protocol = Protocol::kResponses, .model = "alias"};
  request.messages.push_back({.role = Role::kSystem,
                              .parts = {{.content = TextPart{.text = "sys"}}},
                              .is_instructions = true});
  request.tools = {{.name = "f"}};
  request.extras = {{"metadata", R"({"a":"b"})"}};
  Answer answer{.id = "msg_01abc", .model = "claude", .usage = {.input = 1, .output = 2}};
  answer.parts = {{.content = TextPart{.text = "hi"}}};
  const auto body = responses_protocol().write_answer(answer, request);
  JsonDocument document;
  const auto root = document.parse(body);
  ASSERT_TRUE(root) << body;
  for (const char* required : {"id",
                               "object",
                               "created_at",
                               "status",
                               "error",
                               "incomplete_details",
                               "instructions",
                               "metadata",
                               "model",
                               "output",
                               "parallel_tool_calls",
                               "temperature",
                               "tool_choice",
                               "tools",
                               "top_p",
                               "max_output_tokens",
                               "previous_response_id",
                               "reasoning",
                               "text",
                               "truncation",
                               "usage",
                               "user",
                               "store",
                               "service_tier",
                               "background"})
    EXPECT_EQ(root->value().at_key(required).error(), simdjson::SUCCESS) << required;
  EXPECT_EQ(root->string_at("id").value(), "resp_01abc");
  EXPECT_EQ(root->string_at("instructions").value(), "sys");
  EXPECT_EQ(root->find("metadata")->raw(), R"({"a":"b"})");
  EXPECT_THAT(body, HasSubstr(R"("output":[{"id":"msg_01abc_0","type":"message","status":)"
                              R"("completed","content":[{"type":"output_text","annotations":[],)"
                              R"("logprobs":[],"text":"hi"}],"role":"assistant"}])"));
  EXPECT_THAT(body, HasSubstr(R"("total_tokens":3)"));
}

TEST(ResponsesAnswerTest, MaxTokensIsIncomplete) {
  Answer answer{.id = "x", .stop = Stop::kMaxTokens};
  answer.parts = {{.content = TextPart{.text = "cut"}}};
  auto body = responses_protocol().write_answer(answer, Request{});
  EXPECT_THAT(body, HasSubstr(R"("incomplete_details":{"reason":"max_output_tokens"})"));
  EXPECT_THAT(body, HasSubstr(R"("status":"incomplete","content")"));
  EXPECT_EQ(read(body).stop, Stop::kMaxTokens);
  answer.stop = Stop::kRefusal;
  body = responses_protocol().write_answer(answer, Request{});
  EXPECT_THAT(body, HasSubstr(R"("incomplete_details":{"reason":"content_filter"})"));
}

TEST(ResponsesAnswerTest, ThinkingOfOthersComesBackByteExactly) {
  const ThinkingPart thinking{.text = "deep\n", .proof = "sig+/==", .author = Protocol::kMessages};
  Answer answer{.id = "msg_1"};
  answer.parts = {{.content = thinking}, {.content = TextPart{.text = "hi"}}};
  const auto body = responses_protocol().write_answer(answer, Request{});
  JsonDocument document;
  const auto root = document.parse(body);
  ASSERT_TRUE(root);
  // The client sends the items back as they are.
  const auto request = responses_protocol().read_request(R"({"model":"m","input":)" +
                                                         root->find("output")->raw() + "}");
  ASSERT_TRUE(request) << request.error().describe();
  EXPECT_EQ(std::get<ThinkingPart>(request->messages.at(0).parts.at(0).content), thinking);
}

TEST(ResponsesAnswerTest, ReasoningSurvivesAClientOfAnotherProtocol) {
  const Answer answer = read(kWhole);
  const auto& thinking = std::get<ThinkingPart>(answer.parts[0].content);
  const auto carried = carried_proof(carry_proof(thinking));
  ASSERT_TRUE(carried);
  Request request{.protocol = Protocol::kMessages};
  request.messages.push_back({.role = Role::kAssistant, .parts = {{.content = *carried}}});
  Omitted omitted;
  const auto body = responses_protocol().write_request(request, "gpt", omitted);
  ASSERT_TRUE(body);
  EXPECT_THAT(*body, HasSubstr(R"({"type":"reasoning","id":"rs_1","summary":[{"type":)"
                               R"("summary_text","text":"hm"}],"encrypted_content":"EE"})"));
}

TEST(ResponsesAnswerTest, ACallThatStandsForAFreeFormToolIsOneAgain) {
  Request request{.protocol = Protocol::kResponses};
  request.tools = {{.kind = Tool::Kind::kFreeForm, .name = "patch"}};
  Answer answer{.id = "a"};
  answer.parts = {
      {.content = ToolCallPart{.id = "c", .name = "patch", .input = R"({"input":"*** Begin\n"})"}}};
  EXPECT_THAT(responses_protocol().write_answer(answer, request),
              HasSubstr(R"({"id":"ctc_a_0","type":"custom_tool_call","status":"completed",)"
                        R"("input":"*** Begin\n","call_id":"c","name":"patch"})"));
}

}  // namespace
}  // namespace pons::models
