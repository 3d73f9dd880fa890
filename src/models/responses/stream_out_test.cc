#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "json_node.h"
#include "pons/models/protocol.h"
#include "pons/models/thinking.h"

namespace pons::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Written {
  std::vector<std::string> types;
  std::vector<std::string> data;
  std::string text;
};

// Checks what holds for every stream: names agree, numbers grow by one.
Written write(const std::vector<AnswerEvent>& events, const Request& request = {}) {
  Written written;
  const auto writer = responses_protocol().stream_writer(request);
  for (const AnswerEvent& event : events) writer->take(event, written.text);
  http::EventStreamParser parser;
  EXPECT_TRUE(parser.feed(written.text, [&](const http::ServerEvent& event) {
    JsonDocument document;
    const auto root = document.parse(event.data);
    ASSERT_TRUE(root) << event.data;
    EXPECT_EQ(root->string_at("type").value(), event.event);
    EXPECT_EQ(root->integer_at("sequence_number").value(), std::ssize(written.types));
    written.types.push_back(event.event);
    written.data.push_back(event.data);
  }));
  return written;
}

std::string data_of(const Written& written, std::string_view type) {
  for (std::size_t at = 0; at < written.types.size(); ++at)
    if (written.types[at] == type) return written.data[at];
  return "";
}

Part text(std::string said) {
  return {.content = TextPart{.text = std::move(said)}};
}

TEST(ResponsesStreamOutTest, TextHasTheOrderOfTheService) {
  const auto written =
      write({AnswerBegins{.id = "chatcmpl-7", .model = "m"}, PartBegins{text("")}, PartGrows{"he"},
             PartGrows{"y"}, PartEnds{}, AnswerEnds{.usage = {.input = 1, .output = 2}}});
  EXPECT_THAT(
      written.types,
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta",
                  "response.output_text.delta", "response.output_text.done",
                  "response.content_part.done", "response.output_item.done", "response.completed"));
  EXPECT_THAT(data_of(written, "response.output_text.done"), HasSubstr(R"("text":"hey")"));
  EXPECT_THAT(data_of(written, "response.output_item.done"), HasSubstr(R"("text":"hey")"));
  EXPECT_THAT(data_of(written, "response.output_item.added"),
              HasSubstr(R"("item":{"id":"msg_7_0","type":"message","status":"in_progress",)"
                        R"("content":[],"role":"assistant"})"));
  const auto completed = data_of(written, "response.completed");
  EXPECT_THAT(completed, HasSubstr(R"("id":"resp_7")"));
  EXPECT_THAT(completed, HasSubstr(R"("status":"completed")"));
  EXPECT_THAT(completed, HasSubstr(R"("output":[{"id":"msg_7_0")"));
  EXPECT_THAT(completed, HasSubstr(R"("total_tokens":3)"));
}

TEST(ResponsesStreamOutTest, ReasoningTextsAndCallsHaveIndicesOfTheirOwn) {
  const auto written = write(
      {AnswerBegins{.id = "msg_1", .model = "m"}, PartBegins{{.content = ThinkingPart{}}},
       PartGrows{"hm"}, ProofCame{"sig"}, PartEnds{}, PartBegins{text("")}, PartGrows{"a"},
       PartEnds{}, PartBegins{text("")}, PartGrows{"b"}, PartEnds{},
       PartBegins{{.content = ToolCallPart{.id = "c", .name = "f", .space = "s"}}},
       PartGrows{"{\"x\""}, PartGrows{":1}"}, PartEnds{}, AnswerEnds{.stop = Stop::kToolUse}});
  EXPECT_THAT(
      written.types,
      ElementsAre(
          "response.created", "response.in_progress", "response.output_item.added",
          "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
          "response.reasoning_summary_text.done", "response.reasoning_summary_part.done",
          "response.output_item.done", "response.output_item.added", "response.content_part.added",
          "response.output_text.delta", "response.output_text.done", "response.content_part.done",
          "response.content_part.added", "response.output_text.delta", "response.output_text.done",
          "response.content_part.done", "response.output_item.done", "response.output_item.added",
          "response.function_call_arguments.delta", "response.function_call_arguments.delta",
          "response.function_call_arguments.done", "response.output_item.done",
          "response.completed"));
  EXPECT_THAT(written.data[14], HasSubstr(R"("output_index":1,"content_index":1,"delta":"b")"));
  EXPECT_THAT(written.data[21],
              HasSubstr(R"("output_index":2,"name":"f","arguments":"{\"x\":1}")"));
  EXPECT_THAT(written.data[22], HasSubstr(R"("id":"fc_1_2","type":"function_call","status":)"
                                          R"("completed","arguments":"{\"x\":1}","call_id":"c",)"
                                          R"("name":"f","namespace":"s")"));
  const std::string sealed = carry_proof({.text = "hm", .proof = "sig"});
  EXPECT_THAT(written.data[7], HasSubstr("\"encrypted_content\":\"" + sealed + "\""));
}

TEST(ResponsesStreamOutTest, TheStreamTellsTheSameAsTheWholeAnswer) {
  Answer answer{.id = "resp_9", .model = "m", .stop = Stop::kToolUse, .usage = {.output = 3}};
  answer.parts = {
      text("x"),
      {.content = RefusalPart{.text = "no"}},
      {.content = OpaquePart{.protocol = Protocol::kResponses,
                             .type = "web_search_call",
                             .json = R"({"type":"web_search_call","id":"ws"})"}},
      {.content = ToolCallPart{.id = "c", .name = "p", .input = "i", .free_form = true}}};
  const auto written = write(events_of(answer));
  JsonDocument document;
  const auto completed = data_of(written, "response.completed");
  const auto root = document.parse(completed);
  ASSERT_TRUE(root);
  EXPECT_EQ(root->find("response")->raw(), responses_protocol().write_answer(answer, Request{}));

  // And is understood by its own reader.
  AnswerBuilder builder;
  const auto reader = responses_protocol().stream_reader();
  http::EventStreamParser parser;
  const AnswerSink sink = [&](const AnswerEvent& event) { builder.take(event); };
  EXPECT_TRUE(parser.feed(written.text, [&](const http::ServerEvent& event) {
    EXPECT_TRUE(reader->feed(event, sink));
  }));
  EXPECT_TRUE(reader->finish(sink));
  answer.usage.reasoning = 0;
  answer.usage.searches = 1;
  EXPECT_EQ(builder.answer(), answer);
}

TEST(ResponsesStreamOutTest, AnItemHasOneIdInAllEvents) {
  const auto written =
      write({AnswerBegins{.id = "x"},
             PartBegins{{.content = ThinkingPart{.text = {}, .author = Protocol::kResponses}}},
             PartGrows{"t"}, ProofCame{R"({"id":"rs_9","encrypted_content":"E"})"}, PartEnds{},
             AnswerEnds{}});
  ASSERT_EQ(written.data.size(), 9U);
  for (std::size_t at = 2; at < written.data.size(); ++at)
    EXPECT_THAT(written.data[at], HasSubstr(R"(id":"rs_x_0")"));
  EXPECT_THAT(written.data[7], HasSubstr(R"("encrypted_content":"E")"));
}

TEST(ResponsesStreamOutTest, AnAnswerThatWasCutIsIncomplete) {
  const auto written =
      write({AnswerBegins{.id = "x"}, PartBegins{{.content = ToolCallPart{.id = "c", .name = "f"}}},
             PartGrows{"{\"a"}, PartEnds{}, AnswerEnds{.stop = Stop::kMaxTokens}});
  EXPECT_EQ(written.types.back(), "response.incomplete");
  EXPECT_THAT(data_of(written, "response.output_item.done"), HasSubstr(R"("status":"incomplete")"));
  EXPECT_THAT(written.data.back(),
              HasSubstr(R"("incomplete_details":{"reason":"max_output_tokens"})"));
}

TEST(ResponsesStreamOutTest, AFailureEndsTheStreamWithoutACleanEnd) {
  const auto written =
      write({AnswerBegins{.id = "x"}, PartBegins{text("")}, PartGrows{"a"},
             Failure{.kind = Failing::kOverloaded, .message = "busy"}, AnswerEnds{}});
  EXPECT_EQ(written.types.at(written.types.size() - 2), "error");
  EXPECT_EQ(written.types.back(), "response.failed");
  EXPECT_THAT(written.data.back(),
              HasSubstr(R"("error":{"code":"server_is_overloaded","message":"busy"})"));
  EXPECT_THAT(written.text, Not(HasSubstr("response.completed")));
  EXPECT_THAT(write({Failure{.message = "at once"}}).types, ElementsAre("error"));
}

TEST(ResponsesStreamOutTest, CitationsOfPagesBecomeAnnotations) {
  const std::vector<AnswerEvent> events = {
      AnswerBegins{.id = "a", .model = "m"},
      PartBegins{text("")},
      PartGrows{"h\u00e9"},
      CitationCame{.json = R"({"type":"web_search_result_location","url":"https://x","title":"X"})",
                   .cited_in = Protocol::kMessages},
      CitationCame{.json = R"({"type":"char_location","document_index":0})",
                   .cited_in = Protocol::kMessages},
      PartEnds{},
      AnswerEnds{}};
  const auto written = write(events);
  const std::string page =
      R"({"type":"url_citation","start_index":0,"end_index":2,"title":"X","url":"https://x"})";
  EXPECT_THAT(data_of(written, "response.output_text.annotation.added"),
              HasSubstr("\"annotation\":" + page));
  EXPECT_THAT(data_of(written, "response.completed"), HasSubstr("\"annotations\":[" + page + "]"));
  AnswerBuilder whole;
  for (const AnswerEvent& event : events) whole.take(event);
  EXPECT_THAT(responses_protocol().write_answer(whole.answer(), {}),
              HasSubstr("\"annotations\":[" + page + "]"));
  const auto of_chat =
      write({AnswerBegins{.id = "a", .model = "m"}, PartBegins{text("")}, PartGrows{"hey"},
             CitationCame{.json = R"({"type":"url_citation","url_citation":{"start_index":1,)"
                                  R"("end_index":2,"url":"https://y","title":"Y"}})",
                          .cited_in = Protocol::kChat},
             PartEnds{}, AnswerEnds{}});
  EXPECT_THAT(
      data_of(of_chat, "response.output_item.done"),
      HasSubstr(
          R"({"type":"url_citation","start_index":1,"end_index":2,"title":"Y","url":"https://y"})"));
}

TEST(ResponsesStreamOutTest, AStreamThatPassedIsEndedFromWhereItIs) {
  const Failure failure{.kind = Failing::kTimeout, .message = "late"};
  const auto ended = [&](std::initializer_list<const char*> passed) {
    const auto watch = responses_protocol().stream_watch();
    for (const char* data : passed)
      EXPECT_TRUE(watch->see({.id = {}, .event = {}, .data = data})) << data;
    std::string out;
    watch->end_with(failure, out);
    return out;
  };
  const char* const created =
      R"({"type":"response.created","sequence_number":0,"response":{"id":"resp_1x","model":"gpt"}})";
  const std::string cut = ended({created, R"({"type":"response.output_text.delta",)"
                                          R"("sequence_number":7,"delta":"hi"})"});
  EXPECT_THAT(cut, HasSubstr(R"({"type":"error","sequence_number":8,"code":)"));
  EXPECT_THAT(cut, HasSubstr(R"({"type":"response.failed","sequence_number":9,"response":)"
                             R"({"id":"resp_1x")"));
  EXPECT_THAT(cut, HasSubstr(R"("status":"failed")"));
  EXPECT_THAT(cut, HasSubstr("late"));
  const std::string told =
      ended({created, R"({"type":"error","sequence_number":1,"message":"theirs"})"});
  EXPECT_THAT(told, Not(HasSubstr("\"type\":\"error\"")));
  EXPECT_THAT(told, HasSubstr(R"("type":"response.failed","sequence_number":2)"));
  EXPECT_EQ(ended({created, R"({"type":"response.failed","sequence_number":1,"response":)"
                            R"({"id":"resp_1x","error":{"message":"theirs"}}})"}),
            "");
  EXPECT_THAT(ended({}), Not(HasSubstr("response.failed"))) << "there is no response yet";
}

TEST(ResponsesStreamOutTest, AClientThatWaitsGetsComments) {
  std::string out;
  const auto writer = responses_protocol().stream_writer({});
  writer->keep_alive(out);
  EXPECT_EQ(out, ": keep-alive\n\n");
}

TEST(ResponsesStreamOutTest, ACallThatStandsForAFreeFormToolIsOneAgain) {
  Request request;
  request.tools = {{.kind = Tool::Kind::kFreeForm, .name = "patch"}};
  const auto written = write(
      {AnswerBegins{.id = "x"}, PartBegins{{.content = ToolCallPart{.id = "c", .name = "patch"}}},
       PartGrows{"{\"inp"}, PartGrows{"ut\": \"line\\"}, PartGrows{"n\\u00"}, PartGrows{"fcx"},
       PartGrows{"\"}"}, PartEnds{}, AnswerEnds{.stop = Stop::kToolUse}},
      request);
  EXPECT_THAT(data_of(written, "response.output_item.added"), HasSubstr("custom_tool_call"));
  EXPECT_THAT(data_of(written, "response.custom_tool_call_input.done"),
              HasSubstr(R"("input":"line\nüx")"));
  EXPECT_THAT(written.types, Not(::testing::Contains("response.function_call_arguments.delta")));
  EXPECT_THAT(data_of(written, "response.custom_tool_call_input.delta"),
              HasSubstr(R"("delta":"line")"));
}

TEST(ResponsesStreamOutTest, PartsWithoutAPlaceAreSkipped) {
  const auto written = write({AnswerBegins{.id = "x"},
                              PartBegins{{.content = OpaquePart{.type = "server_tool_use"}}},
                              PartGrows{"y"}, PartEnds{}, AnswerEnds{}});
  EXPECT_THAT(written.types,
              ElementsAre("response.created", "response.in_progress", "response.completed"));
}

}  // namespace
}  // namespace pons::models
