#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pons/models/protocol.h"
#include "pons/models/thinking.h"

namespace pons::models {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Answer read(std::string_view body) {
  auto answer = chat_protocol().read_answer(body);
  EXPECT_TRUE(answer) << answer.error().describe();
  return answer ? std::move(*answer) : Answer{};
}

std::string saying(std::string_view message, std::string_view finish = R"("stop")",
                   std::string_view usage = "null") {
  return R"({"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{)" +
         std::string(message) + R"(},"finish_reason":)" + std::string(finish) + R"(}],"usage":)" +
         std::string(usage) + "}";
}
Usage usage_of(std::string_view usage) {
  return chat_protocol().usage_of(R"({"usage":)" + std::string(usage) + "}");
}

TEST(ChatAnswerTest, TextThinkingAndCallsAreReadInOrder) {
  const auto answer = read(saying(R"("content":"t","reasoning_content":"hm","tool_calls":[
      {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}])"));
  ASSERT_EQ(answer.parts.size(), 3U);
  EXPECT_EQ(std::get<ThinkingPart>(answer.parts[0].content).author, Protocol::kChat);
  EXPECT_EQ(std::get<TextPart>(answer.parts[1].content).text, "t");
  EXPECT_EQ(std::get<ToolCallPart>(answer.parts[2].content).id, "a");
  EXPECT_EQ(answer.stop, Stop::kToolUse) << "although the server said \"stop\"";
}

TEST(ChatAnswerTest, SparseAnswersOfCompatibleServersAreRead) {
  const auto answer = read(R"({"choices":[{"message":{"content":null,"tool_calls":[
      {"function":{"name":"f","arguments":{"a":1}}}]},"finish_reason":null}],"usage":null})");
  EXPECT_THAT(answer.id, HasSubstr("chatcmpl-"));
  const auto& call = std::get<ToolCallPart>(answer.parts.at(0).content);
  EXPECT_EQ(call.input, R"({"a":1})");
  EXPECT_THAT(call.id, HasSubstr("call_"));
  EXPECT_EQ(answer.stop, Stop::kToolUse);
  EXPECT_EQ(answer.usage, Usage{});
}

TEST(ChatAnswerTest, TheOldFormOfACallIsACall) {
  const auto answer = read(saying(R"("content":null,"function_call":{"name":"f","arguments":"{}"})",
                                  R"("function_call")"));
  EXPECT_EQ(std::get<ToolCallPart>(answer.parts.at(0).content).name, "f");
  EXPECT_EQ(answer.stop, Stop::kToolUse);
}

TEST(ChatAnswerTest, RefusalsAndAnnotationsAreKept) {
  EXPECT_EQ(read(saying(R"("content":null,"refusal":"no")")).stop, Stop::kRefusal);
  const auto answer = read(saying(R"("content":"t","annotations":[{"type":"url_citation"}])"));
  EXPECT_EQ(
      std::get<TextPart>(answer.parts.at(0).content),
      (TextPart{
          .text = "t", .citations = R"([{"type":"url_citation"}])", .cited_in = Protocol::kChat}));
}

TEST(ChatAnswerTest, UsageCountsEachTokenOnce) {
  EXPECT_EQ(
      usage_of(R"({"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,
      "prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":10},
      "completion_tokens_details":{"reasoning_tokens":5}})"),
      (Usage{.input = 30, .cache_read = 60, .cache_write = 10, .output = 20, .reasoning = 5}));
  EXPECT_EQ(usage_of(R"({"prompt_tokens":100,"completion_tokens":20,
      "prompt_cache_hit_tokens":40})"),
            (Usage{.input = 60, .cache_read = 40, .output = 20}));
}

TEST(ChatAnswerTest, AnExplicitZeroIsNotMissing) {
  EXPECT_EQ(usage_of(R"({"completion_tokens_details":{"reasoning_tokens":0}})").reasoning, 0);
  EXPECT_EQ(usage_of(R"({"completion_tokens_details":{}})").reasoning, std::nullopt);
}

TEST(ChatAnswerTest, ReasoningBesideTheOutputIsCountedIntoIt) {
  EXPECT_EQ(usage_of(R"({"prompt_tokens":10,"completion_tokens":5,"total_tokens":45,
      "completion_tokens_details":{"reasoning_tokens":30}})"),
            (Usage{.input = 10, .output = 35, .reasoning = 30}));
}

TEST(ChatAnswerTest, UsageThatNobodyCanBelieveOverflowsNothing) {
  const auto usage = usage_of(R"({"prompt_tokens":9223372036854775807,"completion_tokens":-5,
      "total_tokens":9223372036854775807,"prompt_tokens_details":{"cached_tokens":1e300}})");
  EXPECT_GT(usage.prompt() + usage.output, 0);
  EXPECT_GE(usage.output, 0);
}

TEST(ChatAnswerTest, WhatIsNoAnswerIsAnError) {
  for (const char* const body :
       {"", "7", "{}", R"({"choices":[]})", R"({"choices":[{}]})", R"({"error":{"message":"x"}})",
        R"({"choices":[{"message":{"content":7}}]})",
        R"({"choices":[{"message":{"content":"a"},"finish_reason":"error"}]})"})
    EXPECT_FALSE(chat_protocol().read_answer(body)) << body;
}

TEST(ChatAnswerTest, AnAnswerOfAnotherProtocolIsWrittenWhole) {
  const ThinkingPart thinking{.text = "hm", .proof = "sig"};
  Answer answer{.id = "msg_1",
                .model = "m",
                .parts = {{.content = thinking},
                          {.content = TextPart{.text = "a"}},
                          {.content = TextPart{.text = "b"}},
                          {.content = ToolCallPart{.id = "t", .name = "f", .input = ""}}},
                .stop = Stop::kToolUse,
                .usage = {.input = 1, .output = 2}};
  const auto body = chat_protocol().write_answer(answer, Request{});
  EXPECT_THAT(
      body,
      HasSubstr(
          R"("choices":[{"index":0,"message":{"role":"assistant","content":"ab","refusal":null,)"
          R"("reasoning_content":"hm","reasoning_details":[{"type":"reasoning.encrypted","data":")" +
          carry_proof(thinking) +
          R"(","index":0}],"tool_calls":[{"id":"t","type":"function","function":{"name":"f",)"
          R"("arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],"usage":)"
          R"({"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,)"
          R"("prompt_tokens_details":{"cached_tokens":0}}})"));
  // And the proof is known again in the client's next request.
  const auto begin = body.find(R"({"role":"assistant")");
  const auto message = body.substr(begin, body.find(R"(,"logprobs")") - begin);
  const auto request =
      chat_protocol().read_request(R"({"model":"m","messages":[)" + message + "]}");
  ASSERT_TRUE(request) << request.error().describe();
  EXPECT_EQ(std::get<ThinkingPart>(request->messages[0].parts[0].content), thinking);
}

TEST(ChatAnswerTest, CallsOfCustomToolsAreFreeTextAgain) {
  Request request;
  request.tools = {{.kind = Tool::Kind::kFreeForm, .name = "p"}};
  Answer answer{
      .parts = {{.content = ToolCallPart{.id = "t", .name = "p", .input = R"({"input":"free"})"}}}};
  EXPECT_THAT(chat_protocol().write_answer(answer, request),
              HasSubstr(R"("type":"custom","custom":{"name":"p","input":"free"})"));
}

TEST(ChatAnswerTest, ReadAndWrittenItIsTheSameAnswer) {
  const auto answer = read(saying(R"("content":"t","reasoning_content":"hm","reasoning_details":
      [{"type":"reasoning.encrypted","data":"q"}],"annotations":[{"type":"url_citation","n":1}],
      "tool_calls":[{"id":"a","type":"custom","custom":{"name":"p","input":"x"}}])",
                                  R"("tool_calls")",
                                  R"({"prompt_tokens":4,"completion_tokens":2,"total_tokens":6})"));
  EXPECT_EQ(read(chat_protocol().write_answer(answer, Request{})), answer);
}

TEST(ChatWatchTest, AStreamThatPassesIsCounted) {
  const auto watch = chat_protocol().stream_watch();
  const auto see = [&](std::string data) {
    return watch->see({.id = {}, .event = {}, .data = std::move(data)});
  };
  EXPECT_TRUE(see(R"({"choices":[],"prompt_filter_results":[]})"));
  EXPECT_FALSE(watch->began());
  EXPECT_TRUE(see(R"({"choices":[{"delta":{"content":"abc","reasoning":"de"}}]})"));
  EXPECT_TRUE(watch->began());
  EXPECT_TRUE(see(R"({"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]}}]})"));
  EXPECT_EQ(watch->output_bytes(), 7U);
  EXPECT_FALSE(watch->is_whole());
  EXPECT_TRUE(see(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})"));
  EXPECT_TRUE(watch->is_whole());
  EXPECT_TRUE(see(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}})"));
  EXPECT_EQ(watch->usage(), (Usage{.input = 3, .output = 4}));
  EXPECT_TRUE(see("[DONE]"));
  EXPECT_FALSE(see("<html>"));
  EXPECT_FALSE(see(R"({"hello":1})"));
}

TEST(ChatWatchTest, AFailureIsSeen) {
  const auto watch = chat_protocol().stream_watch();
  EXPECT_TRUE(watch->see({.data = R"({"error":{"message":"no","type":"rate_limit_error"}})"}));
  ASSERT_TRUE(watch->failure());
  EXPECT_EQ(watch->failure()->kind, Failing::kRateLimit);
  EXPECT_FALSE(watch->is_whole());
}

TEST(ChatErrorTest, ContextLengthIsRecognisedInTheWordsOfManyProviders) {
  for (
      const char* const body :
      {R"({"error":{"message":"too big","type":"invalid_request_error","code":"context_length_exceeded"}})",
       R"({"error":{"message":"This model's maximum context length is 8192 tokens."}})",
       R"({"object":"error","message":"This model's maximum context length is 4096","code":400})",
       R"({"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}})",
       R"([{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8)."}}])",
       R"({"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}})",
       R"({"detail":"Your input exceeds the context window of this model"})"})
    EXPECT_EQ(chat_protocol().read_error(400, body).kind, Failing::kContextLength) << body;
}

TEST(ChatErrorTest, StatusesSayWhatACallerCanDo) {
  const auto kind = [](int status) {
    return chat_protocol().read_error(status, R"({"error":{"message":"m"}})").kind;
  };
  EXPECT_EQ(kind(400), Failing::kInvalidRequest);
  EXPECT_EQ(kind(422), Failing::kInvalidRequest);
  EXPECT_EQ(kind(401), Failing::kUpstream) << "the gateway's key, not the caller's";
  EXPECT_EQ(kind(403), Failing::kUpstream);
  EXPECT_EQ(kind(404), Failing::kNotFound);
  EXPECT_EQ(kind(408), Failing::kTimeout);
  EXPECT_EQ(kind(413), Failing::kTooLarge);
  EXPECT_EQ(kind(429), Failing::kRateLimit);
  EXPECT_EQ(kind(500), Failing::kUpstream);
  EXPECT_EQ(kind(503), Failing::kOverloaded);
  EXPECT_EQ(kind(504), Failing::kTimeout);
  EXPECT_EQ(kind(529), Failing::kOverloaded);
}

TEST(ChatErrorTest, WhateverTheBodyIsThereIsAnAnswer) {
  for (const char* const body : {"", "<html>502</html>", "\xff\xfe", "7", "[]", "{}", "null",
                                 R"({"error":7})", R"({"error":{"message":7,"code":{}}})"}) {
    const auto failure = chat_protocol().read_error(502, body);
    EXPECT_EQ(failure.kind, Failing::kUpstream) << body;
    EXPECT_EQ(failure.message, "the provider answered with status 502") << body;
  }
  EXPECT_EQ(chat_protocol().read_error(500, "out of cheese").message, "out of cheese");
  EXPECT_EQ(chat_protocol().read_error(500, R"({"error":"words"})").message, "words");
}

TEST(ChatErrorTest, ErrorsAreWrittenInTheProtocolsOwnShape) {
  const auto write = [](Failing kind) {
    return chat_protocol().write_error({.kind = kind, .message = "m"}, "req_1");
  };
  EXPECT_EQ(write(Failing::kInvalidRequest).body,
            R"({"error":{"message":"m","type":"invalid_request_error","param":null,"code":null}})");
  EXPECT_EQ(write(Failing::kAuthentication).status, 401);
  EXPECT_THAT(write(Failing::kAuthentication).body, HasSubstr(R"("code":"invalid_api_key")"));
  EXPECT_EQ(write(Failing::kPermission).status, 403);
  EXPECT_EQ(write(Failing::kNotFound).status, 404);
  EXPECT_EQ(write(Failing::kTooLarge).status, 413);
  EXPECT_EQ(write(Failing::kRateLimit).status, 429);
  EXPECT_EQ(write(Failing::kBudget).status, 429);
  EXPECT_THAT(write(Failing::kBudget).body, HasSubstr(R"("code":"insufficient_quota")"));
  EXPECT_EQ(write(Failing::kOverloaded).status, 503);
  EXPECT_EQ(write(Failing::kTimeout).status, 504);
  EXPECT_EQ(write(Failing::kUpstream).status, 502);
  const auto length = write(Failing::kContextLength);
  EXPECT_EQ(length.status, 400);
  EXPECT_THAT(length.body, HasSubstr(R"("code":"context_length_exceeded")"));
  EXPECT_THAT(length.body, HasSubstr("maximum context length"));
}

}  // namespace
}  // namespace pons::models
