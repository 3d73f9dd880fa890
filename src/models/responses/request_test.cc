#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "json_node.h"
#include "pons/models/protocol.h"
#include "pons/models/thinking.h"

namespace pons::models {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Request read(std::string_view body) {
  auto request = responses_protocol().read_request(body);
  EXPECT_TRUE(request) << request.error().describe();
  return request ? *request : Request{};
}

std::string error_of(std::string_view body) {
  const auto request = responses_protocol().read_request(body);
  return request ? "" : request.error().message;
}

std::string write(const Request& request) {
  Omitted omitted;
  auto body = responses_protocol().write_request(request, request.model, omitted);
  EXPECT_TRUE(body) << body.error().describe();
  EXPECT_THAT(omitted, IsEmpty());
  return body ? *body : "";
}

void expect_round_trip(std::string_view body) {
  const Request first = read(body);
  const std::string written = write(first);
  EXPECT_EQ(first, read(written)) << written;
}

template <class T>
const T& as(const Part& part) {
  return std::get<T>(part.content);
}

TEST(ResponsesRequestTest, AStringIsAMessageOfTheUser) {
  const Request request = read(R"({"model":"m","input":"hi"})");
  ASSERT_EQ(request.messages.size(), 1U);
  EXPECT_EQ(request.messages[0].role, Role::kUser);
  EXPECT_EQ(as<TextPart>(request.messages[0].parts[0]).text, "hi");
  EXPECT_EQ(request.protocol, Protocol::kResponses);
}

TEST(ResponsesRequestTest, EasyMessagesNeedNoType) {
  const Request request = read(
      R"({"model":"m","input":[{"role":"developer","content":"d"},
          {"role":"user","content":[{"type":"input_text","text":"u"}]},
          {"role":"assistant","content":"a"},{"role":"system","content":"s"}]})");
  ASSERT_EQ(request.messages.size(), 4U);
  EXPECT_EQ(request.messages[0].role, Role::kDeveloper);
  EXPECT_EQ(request.messages[1].role, Role::kUser);
  EXPECT_EQ(request.messages[2].role, Role::kAssistant);
  EXPECT_EQ(request.messages[3].role, Role::kSystem);
}

TEST(ResponsesRequestTest, InstructionsAreASystemMessageThatIsKnownAgain) {
  const Request request =
      read(R"({"model":"m","instructions":"be brief","input":[{"role":"system","content":"x"}]})");
  ASSERT_EQ(request.messages.size(), 2U);
  EXPECT_EQ(request.messages[0].role, Role::kSystem);
  EXPECT_TRUE(request.messages[0].is_instructions);
  EXPECT_FALSE(request.messages[1].is_instructions);
  EXPECT_THAT(write(request), HasSubstr(R"("instructions":"be brief")"));
  const Request without = read(R"({"model":"m","input":[{"role":"system","content":"x"}]})");
  EXPECT_THAT(write(without), ::testing::Not(HasSubstr("instructions")));
}

constexpr std::string_view kRich = R"({
 "model":"gpt","instructions":"sys","stream":true,"max_output_tokens":100,"temperature":0.7,
 "top_p":0.9,"parallel_tool_calls":false,"user":"u1",
 "reasoning":{"effort":"high","summary":"auto","context":"all_turns"},
 "text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true,
   "description":"d"},"verbosity":"low"},
 "include":["reasoning.encrypted_content"],"store":false,"previous_response_id":"resp_1",
 "truncation":"auto","metadata":{"a":"b"},"prompt_cache_key":"k","client_metadata":{"x":1},
 "service_tier":"flex","safety_identifier":"s","something_new":{"deep":[1,2.5,null]},
 "tools":[
  {"type":"function","name":"f","description":"d","parameters":{"$defs":{"a":{}},"type":"object"},
   "strict":true,"defer_loading":true},
  {"type":"function","name":"g","parameters":null,"strict":null},
  {"type":"custom","name":"c","description":"x","format":{"type":"grammar","syntax":"lark",
   "definition":"start: x"}},
  {"type":"namespace","name":"mcp__s","description":"sd","tools":[
    {"type":"function","name":"run","parameters":{"type":"object"}},
    {"type":"custom","name":"patch"}]},
  {"type":"web_search","filters":{"allowed_domains":["a.b"]}}],
 "tool_choice":{"type":"custom","name":"c"},
 "input":[
  {"type":"message","role":"user","content":[
    {"type":"input_text","text":"look","prompt_cache_breakpoint":{"mode":"explicit"}},
    {"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"high"},
    {"type":"input_image","image_url":"https://x/y.png"},
    {"type":"input_image","file_id":"file-1","detail":"low"},
    {"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,BBBB"},
    {"type":"input_file","file_id":"file-2"},
    {"type":"input_file","file_url":"https://x/a.pdf"},
    {"type":"input_audio","input_audio":{"data":"CC","format":"mp3"}}]},
  {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"one"},
    {"type":"summary_text","text":"two"}],"encrypted_content":"gAAA"},
  {"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"raw"}]},
  {"type":"message","role":"assistant","id":"msg_1","status":"completed","phase":"commentary",
   "content":[{"type":"output_text","text":"t","annotations":[{"type":"url_citation",
   "url":"https://x","title":"t","start_index":0,"end_index":1}]},
   {"type":"refusal","refusal":"no"}]},
  {"type":"function_call","call_id":"c1","name":"run","namespace":"mcp__s","arguments":"{\"a\":1}"},
  {"type":"custom_tool_call","call_id":"c2","name":"c","input":"free text"},
  {"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search"}},
  {"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"out"},
    {"type":"input_image","image_url":"data:image/png;base64,DD"}]},
  {"type":"custom_tool_call_output","call_id":"c2","output":"done"},
  {"type":"item_reference","id":"msg_0"},
  {"type":"additional_tools","role":"developer","tools":[]},
  {"type":"message","role":"assistant","content":"end"}]})";

TEST(ResponsesRequestTest, WhatIsReadAndWrittenIsTheSameRequest) {
  expect_round_trip(kRich);
  expect_round_trip(R"({"model":"m","input":"hi"})");
  expect_round_trip(R"({"model":"m","input":[],"tool_choice":"required","reasoning":{}})");
  expect_round_trip(R"({"model":"m","prompt":{"id":"p"},"reasoning":{"effort":"none"}})");
  expect_round_trip(R"({"model":"m","input":[{"role":"assistant","content":[],"phase":"x"},
    {"type":"function_call","call_id":"c","name":"f"},{"role":"assistant","content":"z"}]})");
  expect_round_trip(R"({"model":"m","input":"x","tool_choice":{"type":"allowed_tools",
    "mode":"required","tools":[{"type":"function","name":"f"}]}})");
  expect_round_trip(R"({"model":"m","input":"x","text":{"format":{"type":"json_object"}}})");
  expect_round_trip(R"({"model":"m","input":[{"type":"program_output","id":"p"},
    {"type":"function_call_output","call_id":"c","output":[]},
    {"type":"function_call","call_id":"c","name":"f","caller":{"type":"program","caller_id":"p"}}
    ]})");
}

TEST(ResponsesRequestTest, FieldsWithoutAPlaceAreKeptAsTheyAre) {
  const std::string written = write(read(kRich));
  for (const char* kept :
       {R"("something_new":{"deep":[1,2.5,null]})", R"("client_metadata":{"x":1})",
        R"("verbosity":"low")", R"("context":"all_turns")", R"("previous_response_id":"resp_1")",
        R"("phase":"commentary")", R"("defer_loading":true)", R"("id":"rs_1")",
        R"("encrypted_content":"gAAA")", R"("namespace":"mcp__s")",
        R"("prompt_cache_breakpoint":{"mode":"explicit"})",
        R"([{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}])"})
    EXPECT_THAT(written, HasSubstr(kept));
}

TEST(ResponsesRequestTest, ATurnOfTheModelIsOneMessage) {
  const Request request = read(R"({"model":"m","input":[{"role":"user","content":"q"},
    {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}]},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]},
    {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
    {"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},
    {"type":"function_call_output","call_id":"c1","output":"1"},
    {"type":"function_call_output","call_id":"c2","output":"2"},
    {"role":"user","content":"go on"}]})");
  ASSERT_EQ(request.messages.size(), 4U);
  ASSERT_EQ(request.messages[1].parts.size(), 4U);
  EXPECT_EQ(as<ThinkingPart>(request.messages[1].parts[0]).text, "hm");
  EXPECT_EQ(as<ThinkingPart>(request.messages[1].parts[0]).proof, R"({"id":"rs_1"})");
  EXPECT_EQ(as<ThinkingPart>(request.messages[1].parts[0]).author, Protocol::kResponses);
  ASSERT_EQ(request.messages[2].parts.size(), 2U);
  EXPECT_EQ(request.messages[2].role, Role::kUser);
  EXPECT_EQ(as<ToolResultPart>(request.messages[2].parts[1]).call_id, "c2");
}

TEST(ResponsesRequestTest, ToolsOfANamespaceKnowIt) {
  const Request request = read(kRich);
  ASSERT_EQ(request.tools.size(), 6U);
  EXPECT_EQ(request.tools[3].space, "mcp__s");
  EXPECT_EQ(request.tools[3].space_description, "sd");
  EXPECT_EQ(request.tools[4].kind, Tool::Kind::kFreeForm);
  EXPECT_EQ(request.tools[4].space, "mcp__s");
  EXPECT_EQ(request.tools[5].kind, Tool::Kind::kServer);
  EXPECT_EQ(request.tools[5].name, "web_search");
  EXPECT_EQ(request.tools[5].protocol, Protocol::kResponses);
}

TEST(ResponsesRequestTest, UnknownItemsAreOpaque) {
  const Request request = read(kRich);
  std::vector<std::string> types;
  for (const Message& message : request.messages)
    for (const Part& part : message.parts)
      if (const auto* opaque = std::get_if<OpaquePart>(&part.content))
        types.push_back(opaque->type);
  EXPECT_THAT(types, ::testing::ElementsAre("input_audio", "web_search_call", "item_reference",
                                            "additional_tools"));
}

TEST(ResponsesRequestTest, ProofsOfOthersComeBackFromWhereTheyWereCarried) {
  const ThinkingPart thinking{.text = "deep", .proof = "sig+/=", .author = Protocol::kMessages};
  const Request request = read(R"({"model":"m","input":[{"type":"reasoning","id":"rs_x",
    "summary":[],"encrypted_content":")" +
                               carry_proof(thinking) + R"("}]})");
  EXPECT_EQ(as<ThinkingPart>(request.messages.at(0).parts.at(0)), thinking);
  // And do not go to a provider that could not verify them.
  EXPECT_THAT(write(request), HasSubstr(R"("input":[])"));
}

TEST(ResponsesRequestTest, WhatAsksForNothingIsNoExtra) {
  const Request request = read(R"({"model":"m","input":"x","background":false,"top_logprobs":0,
    "previous_response_id":null,"conversation":null})");
  EXPECT_THAT(request.extras, IsEmpty());
}

TEST(ResponsesRequestTest, ErrorsNameThePlace) {
  EXPECT_EQ(error_of(R"({"input":"x"})"), "\"model\" is missing");
  EXPECT_EQ(error_of(R"({"model":"m"})"), "\"input\" is missing");
  EXPECT_EQ(error_of(R"({"model":"m","input":7})"), "input: must be a string or a list");
  EXPECT_EQ(error_of(R"({"model":"m","input":[{"role":"user","content":[{"type":"imge"}]}]})"),
            "input[0].content[0].type: \"imge\" is not a kind of content");
  EXPECT_EQ(error_of(R"({"model":"m","input":[{"role":"boss","content":"x"}]})"),
            "input[0].role: \"boss\" is not a role");
  EXPECT_EQ(error_of(R"({"model":"m","input":[{}]})"), "input[0]: \"type\" is missing");
  EXPECT_EQ(error_of(R"({"model":"m","input":[{"type":"function_call","name":"f"}]})"),
            "input[0]: \"call_id\" is missing");
  EXPECT_EQ(error_of(R"({"model":"m","input":[{"type":"function_call","name":"f","call_id":"c",
    "arguments":{}}]})"),
            "input[0].arguments: must be a string");
  EXPECT_EQ(error_of(R"({"model":"m","input":[{"type":"input_text","text":"x"}]})"),
            "input[0]: \"input_text\" is a kind of content, not of item");
  EXPECT_EQ(error_of(R"({"model":"m","input":"x","tool_choice":"maybe"})"),
            "tool_choice: \"maybe\" is not a choice of tools");
  EXPECT_EQ(error_of(R"({"model":"m","input":"x","tools":[{"name":"f"}]})"),
            "tools[0]: \"type\" is missing");
  EXPECT_EQ(error_of(R"({"model":"m","input":"x","text":{"format":{"type":"xml"}}})"),
            "text.format: \"xml\" is not a kind of format");
  EXPECT_THAT(error_of("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(error_of("{"), HasSubstr("not JSON"));
}

}  // namespace
}  // namespace pons::models
