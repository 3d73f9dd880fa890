#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pons/models/protocol.h"
#include "pons/models/thinking.h"

namespace pons::models {
namespace {

using ::testing::HasSubstr;

Request read(std::string_view body) {
  auto request = chat_protocol().read_request(body);
  EXPECT_TRUE(request) << request.error().describe();
  return request ? std::move(*request) : Request{};
}

std::string refusal_of(std::string_view body) {
  const auto request = chat_protocol().read_request(body);
  EXPECT_FALSE(request) << body;
  if (request) return {};
  EXPECT_EQ(request.error().code, ErrorCode::kInvalid);
  return request.error().message;
}

// With a message, which every request needs.
std::string with(std::string_view fields) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}],)" + std::string(fields) + "}";
}

std::string saying(std::string_view messages) {
  return R"({"model":"m","messages":[)" + std::string(messages) + "]}";
}

template <class T>
const T& part_of(const Request& request, std::size_t message, std::size_t part = 0) {
  return std::get<T>(request.messages.at(message).parts.at(part).content);
}

TEST(ChatRequestTest, StringsAndListsOfTextAreTheSame) {
  const auto plain = read(saying(R"({"role":"user","content":"hi"})"));
  EXPECT_EQ(plain, read(saying(R"({"role":"user","content":[{"type":"text","text":"hi"}]})")));
  EXPECT_EQ(part_of<TextPart>(plain, 0).text, "hi");
  EXPECT_EQ(plain.protocol, Protocol::kChat);
  EXPECT_EQ(plain.model, "m");
}

TEST(ChatRequestTest, SystemAndDeveloperMessagesStayWhereTheyWereSaid) {
  const auto request = read(saying(R"({"role":"system","content":"a"},
      {"role":"user","content":"b"},{"role":"developer","content":[{"type":"text","text":"c"}]})"));
  ASSERT_EQ(request.messages.size(), 3U);
  EXPECT_EQ(request.messages[0].role, Role::kSystem);
  EXPECT_EQ(request.messages[1].role, Role::kUser);
  EXPECT_EQ(request.messages[2].role, Role::kDeveloper);
}

TEST(ChatRequestTest, DataUrlsBecomeMediaWithTheirType) {
  const auto request = read(saying(R"({"role":"user","content":[
      {"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD","detail":"low"}},
      {"type":"image_url","image_url":{"url":"https://example.org/a.png"}},
      {"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,QUJD"}},
      {"type":"file","file":{"file_id":"file-1"}}]})"));
  using Kind = MediaPart::Kind;
  using Source = MediaPart::Source;
  EXPECT_EQ(part_of<MediaPart>(request, 0, 0),
            (MediaPart{.media_type = "image/png", .data = "QUJD", .detail = "low"}));
  EXPECT_EQ(part_of<MediaPart>(request, 0, 1),
            (MediaPart{.source = Source::kUrl, .data = "https://example.org/a.png"}));
  EXPECT_EQ(part_of<MediaPart>(request, 0, 2), (MediaPart{.kind = Kind::kDocument,
                                                          .media_type = "application/pdf",
                                                          .data = "QUJD",
                                                          .name = "a.pdf"}));
  EXPECT_EQ(part_of<MediaPart>(request, 0, 3),
            (MediaPart{.kind = Kind::kDocument, .source = Source::kFile, .data = "file-1"}));
}

TEST(ChatRequestTest, AudioIsKeptForItsOwnProtocolOnly) {
  const auto request = read(saying(R"({"role":"user","content":[
      {"type":"input_audio","input_audio":{"data":"QUJD","format":"wav"}}]})"));
  const auto& opaque = part_of<OpaquePart>(request, 0);
  EXPECT_EQ(opaque.protocol, Protocol::kChat);
  EXPECT_EQ(opaque.type, "input_audio");
}

TEST(ChatRequestTest, ToolCallsAndTheirResultsAreReadInOrder) {
  const auto request = read(saying(R"({"role":"user","content":"go"},
      {"role":"assistant","content":null,"tool_calls":[
        {"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},
        {"id":"b","type":"custom","custom":{"name":"g","input":"free text"}}]},
      {"role":"tool","tool_call_id":"a","content":"one"},
      {"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"two"}]})"));
  EXPECT_EQ(part_of<ToolCallPart>(request, 1, 0),
            (ToolCallPart{.id = "a", .name = "f", .input = R"({"x": 1})"}));
  EXPECT_EQ(part_of<ToolCallPart>(request, 1, 1),
            (ToolCallPart{.id = "b", .name = "g", .input = "free text", .free_form = true}));
  EXPECT_EQ(request.messages[2].role, Role::kUser);
  EXPECT_EQ(part_of<ToolResultPart>(request, 2).call_id, "a");
  EXPECT_FALSE(part_of<ToolResultPart>(request, 2).free_form);
  EXPECT_TRUE(part_of<ToolResultPart>(request, 3).free_form);
}

TEST(ChatRequestTest, ThinkingThatWasCarriedComesBackByteExactly) {
  const ThinkingPart part{.text = "hm \"ü\"", .proof = "Sig+/=", .author = Protocol::kMessages};
  const ThinkingPart hidden{.text = "", .proof = "xyz", .redacted = true};
  const auto request = read(saying(
      R"({"role":"assistant","content":"yes","reasoning_content":"hm \"ü\"","reasoning_details":[
      {"type":"reasoning.encrypted","data":")" +
      carry_proof(part) + R"("},{"type":"reasoning.encrypted","data":")" + carry_proof(hidden) +
      R"("}]})"));
  ASSERT_EQ(request.messages[0].parts.size(), 3U);
  EXPECT_EQ(part_of<ThinkingPart>(request, 0, 0), part);
  EXPECT_EQ(part_of<ThinkingPart>(request, 0, 1), hidden);
  EXPECT_EQ(part_of<TextPart>(request, 0, 2).text, "yes");
}

TEST(ChatRequestTest, ThinkingOfItsOwnProvidersIsTheirs) {
  const auto request = read(saying(
      R"({"role":"assistant","content":"yes","reasoning":"hm","reasoning_details":[{"data":"x"}]})"));
  EXPECT_EQ(part_of<ThinkingPart>(request, 0),
            (ThinkingPart{.text = "hm", .proof = R"([{"data":"x"}])", .author = Protocol::kChat}));
}

TEST(ChatRequestTest, BothNamesOfTheTokenLimitAreRead) {
  EXPECT_EQ(read(with(R"("max_tokens":7)")).output_tokens_max, 7);
  EXPECT_EQ(read(with(R"("max_completion_tokens":8)")).output_tokens_max, 8);
  EXPECT_EQ(read(with(R"("max_tokens":7,"max_completion_tokens":8)")).output_tokens_max, 8);
  EXPECT_THAT(refusal_of(with(R"("max_tokens":0)")), HasSubstr("max_tokens"));
}

TEST(ChatRequestTest, StopIsAStringOrAListAndEmptyOnesStopNothing) {
  EXPECT_EQ(read(with(R"("stop":"a")")).stop, std::vector<std::string>{"a"});
  EXPECT_EQ(read(with(R"("stop":["a","","b"])")).stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(read(with(R"("stop":null)")).stop.empty());
  EXPECT_THAT(refusal_of(with(R"("stop":[1])")), HasSubstr("stop[0]"));
}

TEST(ChatRequestTest, EffortNoneIsThinkingOff) {
  EXPECT_EQ(read(with(R"("reasoning_effort":"none")")).thinking.kind, ThinkingWish::Kind::kOff);
  const auto request = read(with(R"("reasoning_effort":"xhigh")"));
  EXPECT_EQ(request.thinking.kind, ThinkingWish::Kind::kEffort);
  EXPECT_EQ(request.thinking.effort, "xhigh");
}

TEST(ChatRequestTest, ToolChoicesAreReadInAllForms) {
  using Kind = ToolChoice::Kind;
  EXPECT_EQ(read(with(R"("tool_choice":"auto")")).tool_choice.kind, Kind::kAuto);
  EXPECT_EQ(read(with(R"("tool_choice":"required")")).tool_choice.kind, Kind::kAny);
  EXPECT_EQ(read(with(R"("tool_choice":"none")")).tool_choice.kind, Kind::kNone);
  EXPECT_EQ(read(with(R"("tool_choice":{"type":"function","function":{"name":"f"}})")).tool_choice,
            (ToolChoice{.kind = Kind::kOne, .name = "f"}));
  const auto allowed = read(with(
      R"("tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}})"));
  EXPECT_EQ(allowed.tool_choice.kind, Kind::kAny);
  ASSERT_EQ(allowed.extras.size(), 1U);
  EXPECT_EQ(allowed.extras[0].name, "tool_choice");
  EXPECT_THAT(refusal_of(with(R"("tool_choice":"maybe")")), HasSubstr("tool_choice: \"maybe\""));
}

TEST(ChatRequestTest, GrammarsOfCustomToolsAreKeptInTheCommonForm) {
  const auto request = read(with(R"("tools":[{"type":"custom","custom":{"name":"p","format":
      {"type":"grammar","grammar":{"syntax":"lark","definition":"start: x"}}}}])"));
  ASSERT_EQ(request.tools.size(), 1U);
  EXPECT_EQ(request.tools[0].kind, Tool::Kind::kFreeForm);
  EXPECT_EQ(request.tools[0].schema,
            R"({"type":"grammar","syntax":"lark","definition":"start: x"})");
}

TEST(ChatRequestTest, UsageInTheStreamIsForThoseWhoAsk) {
  EXPECT_FALSE(read(with(R"("stream":true)")).stream_usage);
  EXPECT_TRUE(read(with(R"("stream":true,"stream_options":{"include_usage":true})")).stream_usage);
  EXPECT_TRUE(read(with(R"("stream":false)")).stream_usage);
}

TEST(ChatRequestTest, FieldsWithoutAPlaceAreExtrasAndDefaultsAreNothing) {
  const auto request = read(with(R"("logit_bias":{"1":2},"n":1,"logprobs":false,"foo":[1, 2],
      "modalities":["text"],"verbosity":null)"));
  EXPECT_EQ(request.extras, (std::vector<ExtraField>{{.name = "logit_bias", .json = R"({"1":2})"},
                                                     {.name = "foo", .json = "[1,2]"}}));
  EXPECT_EQ(read(with(R"("n":2)")).extras.at(0).json, "2");
}

TEST(ChatRequestTest, TheOldFormOfToolsIsRefusedByName) {
  EXPECT_THAT(refusal_of(with(R"("functions":[])")), HasSubstr("functions: is the old form"));
  EXPECT_THAT(refusal_of(with(R"("function_call":"auto")")), HasSubstr("function_call"));
  EXPECT_THAT(refusal_of(saying(R"({"role":"function","name":"f","content":"x"})")),
              HasSubstr("messages[0]: the role \"function\""));
  EXPECT_THAT(
      refusal_of(saying(R"({"role":"assistant","function_call":{"name":"f","arguments":""}})")),
      HasSubstr("messages[0].function_call"));
}

TEST(ChatRequestTest, ErrorsNameThePlace) {
  EXPECT_EQ(refusal_of(saying(R"({"role":"user","content":[{"type":"imge"}]})")),
            "messages[0].content[0].type: \"imge\" is not a kind of content");
  EXPECT_EQ(refusal_of(saying(R"({"role":"user","content":"a"},{"role":"owl","content":"a"})")),
            "messages[1].role: \"owl\" is not a role");
  EXPECT_EQ(refusal_of(saying(R"({"role":"user"})")), "messages[0]: \"content\" is missing");
  EXPECT_EQ(refusal_of(saying(R"({"role":"user","content":7})")),
            "messages[0].content: must be a string or a list");
  EXPECT_EQ(refusal_of(saying("")), "messages: must not be empty");
  EXPECT_EQ(refusal_of(saying(R"({"role":"tool","content":"x"})")),
            "messages[0]: \"tool_call_id\" is missing");
  EXPECT_EQ(refusal_of(saying(R"({"role":"assistant","tool_calls":[{"id":"a","type":"x"}]})")),
            "messages[0].tool_calls[0].type: \"x\" is not a kind of tool call");
  EXPECT_EQ(refusal_of(saying(R"({"role":"user","content":[
      {"type":"image_url","image_url":{"url":"data:image/png,abc"}}]})")),
            "messages[0].content[0].image_url.url: a data: URL must be base64");
  EXPECT_EQ(refusal_of(with(R"("tools":[{"type":"function","function":{}}])")),
            "tools[0].function: \"name\" is missing");
  EXPECT_EQ(refusal_of(with(R"("temperature":"hot")")), "temperature: must be a number");
  EXPECT_EQ(refusal_of(R"({"messages":[]})"), "\"model\" is missing");
  EXPECT_EQ(refusal_of("[]"), "must be an object");
}

// Equal when read again, although the text differs.
TEST(ChatRequestTest, WhatIsReadAndWrittenIsTheSameRequest) {
  const auto request = read(R"({"model":"m","messages":[
    {"role":"system","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral",
      "ttl":"1h"}},{"type":"text","text":"b"}],"name":"root"},
    {"role":"user","content":[{"type":"text","text":"look"},
      {"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD","detail":"high"}},
      {"type":"input_audio","input_audio":{"data":"QQ==","format":"mp3"}},
      {"type":"file","file":{"file_id":"file-9","filename":"x.pdf"}}],"name":"ann"},
    {"role":"assistant","content":"ok","reasoning_content":"hm","tool_calls":[
      {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\" : [1]}"}},
      {"id":"c2","type":"custom","custom":{"name":"p","input":"*** begin\n"}}],
      "cache_control":{"type":"ephemeral"}},
    {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r"},
      {"type":"image_url","image_url":{"url":"https://example.org/i.png"}}]},
    {"role":"tool","tool_call_id":"c2","content":"","name":"p"},
    {"role":"assistant","refusal":"no","audio":{"id":"au1"},"prefix":true},
    {"role":"assistant","content":[{"type":"refusal","refusal":"r"},{"type":"text","text":"t"}]},
    {"role":"developer","content":"d","cache_control":{"type":"ephemeral"}}],
    "tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,
      "parameters":{"type":"object","$defs":{"x":{"type":"string"}},"additionalProperties":false}},
      "cache_control":{"type":"ephemeral"}},
      {"type":"custom","custom":{"name":"p","format":{"type":"grammar",
        "grammar":{"syntax":"lark","definition":"s: \"x\""}}}},
      {"type":"web_search","depth":2}],
    "tool_choice":{"type":"custom","custom":{"name":"p"}},"parallel_tool_calls":false,
    "max_completion_tokens":100,"temperature":0.25,"top_p":0.5,"top_k":3,"seed":9,
    "stop":["a","b","c","d","e"],"reasoning_effort":"high","user":"u",
    "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},
      "description":"what","strict":true}},
    "stream":true,"stream_options":{"include_usage":true},
    "n":2,"logit_bias":{"5":-100},"metadata":{"k":"v"},"prediction":{"type":"content","content":"x"}
    })");
  Omitted omitted;
  const auto written = chat_protocol().write_request(request, "m", omitted);
  ASSERT_TRUE(written) << written.error().describe();
  EXPECT_EQ(read(*written), request) << *written;
  EXPECT_TRUE(omitted.empty());
}

}  // namespace
}  // namespace pons::models
