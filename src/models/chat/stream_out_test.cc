#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pons/models/protocol.h"
#include "pons/models/thinking.h"

namespace pons::models {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Request chat_request() {
  Request request;
  request.protocol = Protocol::kChat;
  request.stream = true;
  return request;
}

std::string write(const std::vector<AnswerEvent>& events, const Request& request) {
  std::string out;
  const auto writer = chat_protocol().stream_writer(request);
  for (const AnswerEvent& event : events) writer->take(event, out);
  return out;
}

// The deltas of a stream's chunks, and what is none.
std::vector<std::string> deltas(std::string_view stream) {
  std::vector<std::string> found;
  constexpr std::string_view kBegin = R"("delta":)";
  for (;;) {
    const auto begin = stream.find(kBegin);
    if (begin == std::string_view::npos) return found;
    stream.remove_prefix(begin + kBegin.size());
    found.emplace_back(stream.substr(0, stream.find(R"(,"logprobs")")));
  }
}

Answer answer_of(std::vector<Part> parts, Stop stop = Stop::kEnd) {
  return {.id = "msg_1",
          .model = "m",
          .parts = std::move(parts),
          .stop = stop,
          .usage = {.input = 3, .cache_read = 2, .cache_write = 1, .output = 4, .reasoning = 0}};
}
Part text(std::string said) {
  return {.content = TextPart{.text = std::move(said)}};
}
Part call(std::string id, std::string input) {
  return {.content = ToolCallPart{.id = std::move(id), .name = "f", .input = std::move(input)}};
}

TEST(ChatStreamOutTest, TheFirstChunkHasTheRoleAndTheLastLineIsDone) {
  const auto answer = answer_of({text("hi")});
  const auto out = write(events_of(answer), chat_request());
  EXPECT_THAT(deltas(out),
              ElementsAre(R"({"role":"assistant","content":""})", R"({"content":"hi"})", "{}"));
  EXPECT_THAT(out,
              StartsWith(R"(data: {"id":"msg_1","object":"chat.completion.chunk","created":)"));
  EXPECT_THAT(out, HasSubstr(R"("delta":{},"logprobs":null,"finish_reason":"stop"}])"));
  EXPECT_THAT(out, EndsWith("\n\ndata: [DONE]\n\n"));
}

TEST(ChatStreamOutTest, ToolsAreCountedByThemselvesAndNamedOnce) {
  const auto answer =
      answer_of({text("a"), call("t1", R"({"x":1})"), text("b"), call("t2", ""), call("t3", "{}")},
                Stop::kToolUse);
  const auto out = write(events_of(answer), chat_request());
  EXPECT_THAT(
      deltas(out),
      ElementsAre(
          R"({"role":"assistant","content":""})", R"({"content":"a"})",
          R"({"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":""}}]})",
          R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]})",
          R"({"content":"b"})",
          R"({"tool_calls":[{"index":1,"id":"t2","type":"function","function":{"name":"f","arguments":""}}]})",
          R"({"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]})",
          R"({"tool_calls":[{"index":2,"id":"t3","type":"function","function":{"name":"f","arguments":""}}]})",
          R"({"tool_calls":[{"index":2,"function":{"arguments":"{}"}}]})", "{}"));
  EXPECT_THAT(out, HasSubstr(R"("finish_reason":"tool_calls")"));
}

TEST(ChatStreamOutTest, ArgumentsArePassedOnPieceByPiece) {
  const auto request = chat_request();
  const auto writer = chat_protocol().stream_writer(request);
  std::string out;
  writer->take(AnswerBegins{.id = "a", .model = "m", .usage = {}}, out);
  writer->take(PartBegins{.part = call("t", "")}, out);
  for (const char* const piece : {"{\"a", "\": ", "1}"}) {
    out.clear();
    writer->take(PartGrows{.text = piece}, out);
    EXPECT_EQ(deltas(out).size(), 1U);
  }
}

TEST(ChatStreamOutTest, TheUsageChunkIsForThoseWhoAsked) {
  const auto answer = answer_of({text("hi")});
  auto request = chat_request();
  EXPECT_THAT(
      write(events_of(answer), request),
      HasSubstr(
          R"("choices":[],"usage":{"prompt_tokens":6,"completion_tokens":4,"total_tokens":10,)"
          R"("prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":1},)"
          R"("completion_tokens_details":{"reasoning_tokens":0}}})"));
  request.stream_usage = false;
  EXPECT_THAT(write(events_of(answer), request), Not(HasSubstr("usage")));
}

TEST(ChatStreamOutTest, ThinkingOfOthersCarriesItsProofThroughTheClient) {
  const ThinkingPart thinking{.text = "hm", .proof = "Sig=="};
  const ThinkingPart hidden{.text = "", .proof = "secret", .redacted = true};
  const auto answer = answer_of({{.content = thinking}, {.content = hidden}, text("a")});
  const auto out = write(events_of(answer), chat_request());
  EXPECT_THAT(deltas(out),
              ElementsAre(R"({"role":"assistant","content":""})", R"({"reasoning_content":"hm"})",
                          R"({"reasoning_details":[{"type":"reasoning.encrypted","data":")" +
                              carry_proof(thinking) + R"(","index":0}]})",
                          R"({"reasoning_details":[{"type":"reasoning.encrypted","data":")" +
                              carry_proof(hidden) + R"(","index":1}]})",
                          R"({"content":"a"})", "{}"));
}

TEST(ChatStreamOutTest, CallsOfCustomToolsAreFreeTextAgain) {
  auto request = chat_request();
  request.tools = {{.kind = Tool::Kind::kFreeForm, .name = "f"}};
  const auto answer = answer_of({call("t", R"({"input":"line\n\"two\""})")}, Stop::kToolUse);
  EXPECT_THAT(
      deltas(write(events_of(answer), request)),
      ElementsAre(
          R"({"role":"assistant","content":""})",
          R"({"tool_calls":[{"index":0,"id":"t","type":"custom","custom":{"name":"f","input":""}}]})",
          R"({"tool_calls":[{"index":0,"custom":{"input":"line\n\"two\""}}]})", "{}"));
}

TEST(ChatStreamOutTest, CitationsOfPagesBecomeAnnotationsWithTheirRange) {
  auto answer = answer_of({text("äb"), text("cde")});
  std::get<TextPart>(answer.parts[1].content).citations =
      R"([{"type":"web_search_result_location","url":"https://e.org","title":"T"},{"type":"char_location"}])";
  EXPECT_THAT(write(events_of(answer), chat_request()),
              HasSubstr(R"({"annotations":[{"type":"url_citation","url_citation":{"start_index":2,)"
                        R"("end_index":5,"url":"https://e.org","title":"T"}}]})"));
}

TEST(ChatStreamOutTest, AFailureIsTheLastWordAndNoCleanEnd) {
  const auto out =
      write({AnswerBegins{.id = "a", .model = "m", .usage = {}}, PartBegins{.part = text("")},
             PartGrows{.text = "x"}, Failure{.kind = Failing::kUpstream, .message = "cut"}},
            chat_request());
  EXPECT_THAT(out, EndsWith("data: {\"error\":{\"message\":\"cut\",\"type\":\"server_error\","
                            "\"param\":null,\"code\":\"upstream_error\"}}\n\n"));
  EXPECT_THAT(out, Not(HasSubstr("[DONE]")));
  EXPECT_THAT(out, Not(HasSubstr(R"("finish_reason":")")));
}

TEST(ChatStreamOutTest, AWaitingClientGetsCommentsAlsoBeforeTheFirstEvent) {
  const auto request = chat_request();
  std::string out;
  chat_protocol().stream_writer(request)->keep_alive(out);
  EXPECT_EQ(out, ": keep-alive\n\n");
}

TEST(ChatStreamOutTest, EachStopHasItsFinishReason) {
  const auto reason = [](Stop stop) {
    const auto answer = answer_of({text("a")}, stop);
    const auto out = write(events_of(answer), chat_request());
    const auto at = out.rfind(R"("finish_reason":")") + 17;
    return out.substr(at, out.find('"', at) - at);
  };
  EXPECT_EQ(reason(Stop::kEnd), "stop");
  EXPECT_EQ(reason(Stop::kStopSequence), "stop");
  EXPECT_EQ(reason(Stop::kPause), "stop");
  EXPECT_EQ(reason(Stop::kMaxTokens), "length");
  EXPECT_EQ(reason(Stop::kContextWindow), "length");
  EXPECT_EQ(reason(Stop::kToolUse), "tool_calls");
  EXPECT_EQ(reason(Stop::kRefusal), "content_filter");
}

// What the writer writes is a stream that the reader reads to the same answer.
TEST(ChatStreamOutTest, AStreamThatIsWrittenReadsAsTheSameAnswer) {
  auto answer = answer_of({{.content = ThinkingPart{.text = "hm", .author = Protocol::kChat}},
                           text("a"),
                           call("t1", R"({"x":"}"})"),
                           call("t2", "{}")},
                          Stop::kToolUse);
  std::get<TextPart>(answer.parts[1].content).cited_in = Protocol::kChat;
  const auto out = write(events_of(answer), chat_request());
  const auto reader = chat_protocol().stream_reader();
  AnswerBuilder built;
  http::EventStreamParser parser;
  const AnswerSink sink = [&](const AnswerEvent& event) { built.take(event); };
  ASSERT_TRUE(parser.feed(
      out, [&](const http::ServerEvent& event) { EXPECT_TRUE(reader->feed(event, sink)); }));
  ASSERT_TRUE(reader->finish(sink));
  EXPECT_EQ(built.answer(), answer);
}

}  // namespace
}  // namespace pons::models
