#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pons/models/protocol.h"

// What comes from clients of other protocols.

namespace pons::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Written {
  std::string body;
  Omitted omitted;
};

Written write(const Request& request, std::string_view model = "there") {
  Written written;
  auto body = chat_protocol().write_request(request, model, written.omitted);
  EXPECT_TRUE(body) << body.error().describe();
  if (body) written.body = std::move(*body);
  return written;
}

std::string refusal_of(const Request& request) {
  Omitted omitted;
  const auto body = chat_protocol().write_request(request, "there", omitted);
  EXPECT_FALSE(body);
  if (body) return {};
  EXPECT_EQ(body.error().code, ErrorCode::kInvalid);
  return body.error().message;
}

Part text(std::string said) {
  return {.content = TextPart{.text = std::move(said)}};
}
Part call(std::string id, std::string input = R"({"x":1})") {
  return {.content = ToolCallPart{.id = std::move(id), .name = "f", .input = std::move(input)}};
}
Part result(std::string id, std::vector<Part> content, bool is_error = false) {
  return {.content = ToolResultPart{
              .call_id = std::move(id), .content = std::move(content), .is_error = is_error}};
}
Part image() {
  return {.content = MediaPart{.media_type = "image/png", .data = "QUJD"}};
}

Message user(std::vector<Part> parts) {
  return {.role = Role::kUser, .parts = std::move(parts)};
}
Message assistant(std::vector<Part> parts) {
  return {.role = Role::kAssistant, .parts = std::move(parts)};
}

Request asking(std::vector<Message> messages, Protocol protocol = Protocol::kMessages) {
  Request request;
  request.protocol = protocol;
  request.model = "here";
  request.messages = std::move(messages);
  return request;
}
Request asking_hi(Protocol protocol = Protocol::kMessages) {
  return asking({user({text("hi")})}, protocol);
}

TEST(ChatFromOthersTest, TheModelIsNamedAsTheProviderCallsIt) {
  EXPECT_EQ(write(asking_hi()).body,
            R"({"model":"there","messages":[{"role":"user","content":"hi"}]})");
}

TEST(ChatFromOthersTest, SystemBlocksAreOneTextAndCacheHintsAreNotMissed) {
  auto request = asking({{.role = Role::kSystem, .parts = {text("a"), text("b")}},
                         user({text("hi")}),
                         {.role = Role::kDeveloper, .parts = {text("c")}}});
  request.messages[0].parts[1].cache = CacheHint{};
  const auto written = write(request);
  EXPECT_THAT(written.body, HasSubstr(R"({"role":"system","content":"a\n\nb"},{"role":"user",)"
                                      R"("content":"hi"},{"role":"system","content":"c"})"));
  EXPECT_THAT(written.omitted, IsEmpty());
}

TEST(ChatFromOthersTest, ResultsFollowTheirCallsBeforeAnythingElse) {
  // As Responses may order them: a call each, and words between their results.
  const auto written = write(asking({assistant({text("I look.")}),
                                     assistant({call("a")}),
                                     assistant({call("b", "")}),
                                     user({text("wait")}),
                                     user({result("b", {text("2")})}),
                                     {.role = Role::kDeveloper, .parts = {text("note")}},
                                     user({result("a", {text("1"), text("more")})})},
                                    Protocol::kResponses));
  EXPECT_THAT(
      written.body,
      HasSubstr(R"("messages":[{"role":"assistant","content":"I look.","tool_calls":[)"
                R"({"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},)"
                R"({"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
                R"({"role":"tool","tool_call_id":"b","content":"2"},)"
                R"({"role":"tool","tool_call_id":"a","content":"1\n\nmore"},)"
                R"({"role":"user","content":"wait"},{"role":"system","content":"note"}])"));
}

TEST(ChatFromOthersTest, MediaOfAResultAreShownByTheUserAfterAllResults) {
  const auto written = write(asking(
      {assistant({call("a"), call("b")}),
       user({result("a", {text("shot"), image()}), result("b", {image()}), text("go on")})}));
  constexpr std::string_view kImage =
      R"({"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}})";
  EXPECT_THAT(
      written.body,
      HasSubstr(
          R"({"role":"tool","tool_call_id":"a","content":"shot"},{"role":"tool","tool_call_id":"b",)"
          R"("content":"The result is in the next message of the user."},{"role":"user","content":[)"
          R"({"type":"text","text":"This belongs to the result of the tool call a:"},)" +
          std::string(kImage) +
          R"(,{"type":"text","text":"This belongs to the result of the tool call b:"},)" +
          std::string(kImage) + R"(]},{"role":"user","content":"go on"})"));
}

TEST(ChatFromOthersTest, AFailedResultSaysSoOnce) {
  const auto written =
      write(asking({assistant({call("a"), call("b"), call("c")}),
                    user({result("a", {text("no file")}, true),
                          result("b", {text("ERROR: x")}, true), result("c", {}, true)})}));
  EXPECT_THAT(written.body, HasSubstr(R"("content":"Error: no file")"));
  EXPECT_THAT(written.body, HasSubstr(R"("content":"ERROR: x")"));
  EXPECT_THAT(written.body, HasSubstr(R"("content":"Error"})"));
}

TEST(ChatFromOthersTest, CallsAndResultsThatDoNotMatchAreRefusedByName) {
  EXPECT_THAT(refusal_of(asking({user({text("x"), result("lost", {text("1")})})})),
              HasSubstr("\"lost\""));
  EXPECT_THAT(refusal_of(asking({assistant({call("open")}), user({text("x")})})),
              HasSubstr("\"open\" has no result"));
  EXPECT_THAT(refusal_of(asking({assistant({call("open")}), user({text("x")}),
                                 assistant({text("y")}), user({result("open", {})})})),
              HasSubstr("\"open\" has no result before"));
  EXPECT_THAT(
      refusal_of(asking({assistant({call("a")}), user({result("a", {}), result("a", {})})})),
      HasSubstr("a second one"));
}

TEST(ChatFromOthersTest, LongCallIdsAreShortenedAlikeInCallAndResult) {
  const std::string id(64, 'x');
  const auto written = write(asking({assistant({call(id)}), user({result(id, {text("1")})})}));
  EXPECT_THAT(written.body, Not(HasSubstr(id)));
  const auto at = written.body.find(R"("id":"call_)") + 6;
  const auto shortened = written.body.substr(at, written.body.find('"', at) - at);
  EXPECT_EQ(shortened.size(), 37U);
  EXPECT_THAT(written.body, HasSubstr(R"("tool_call_id":")" + shortened + '"'));
}

TEST(ChatFromOthersTest, ThinkingGoesOnlyToItsOwnAuthor) {
  const auto written = write(asking(
      {user({text("q")}),
       assistant(
           {{.content = ThinkingPart{.text = "theirs", .proof = "sig"}},
            {.content = ThinkingPart{.text = "own", .author = Protocol::kChat}},
            {.content = ThinkingPart{.proof = R"([{"data":"z"}])", .author = Protocol::kChat}},
            {.content = ThinkingPart{.proof = R"(1],"x":[2)", .author = Protocol::kChat}},
            text("a")})}));
  EXPECT_THAT(written.body, Not(HasSubstr("theirs")));
  EXPECT_THAT(written.body, HasSubstr(R"("reasoning_content":"own","reasoning_details":[{"data":)"
                                      R"("z"}]})"));
  EXPECT_THAT(written.omitted, IsEmpty());
}

TEST(ChatFromOthersTest, DocumentsAreFilesOrTextOrRefusedByName) {
  MediaPart pdf{
      .kind = MediaPart::Kind::kDocument, .media_type = "application/pdf", .data = "QQ=="};
  EXPECT_THAT(write(asking({user({{.content = pdf}})})).body,
              HasSubstr(R"({"type":"file","file":{"file_data":"data:application/pdf;base64,QQ==",)"
                        R"("filename":"document.pdf"}})"));
  MediaPart plain{.kind = MediaPart::Kind::kDocument,
                  .source = MediaPart::Source::kText,
                  .data = "words",
                  .name = "notes",
                  .with_citations = true};
  const auto written = write(asking({user({{.content = plain}})}));
  EXPECT_THAT(written.body, HasSubstr(R"("content":"Document \"notes\"\n\nwords")"));
  EXPECT_THAT(written.omitted, ElementsAre("citations"));
  MediaPart url = pdf;
  url.source = MediaPart::Source::kUrl;
  EXPECT_THAT(refusal_of(asking({user({{.content = url}})})), HasSubstr("document by its URL"));
  MediaPart file = pdf;
  file.source = MediaPart::Source::kFile;
  file.data = "file_011C";
  EXPECT_THAT(refusal_of(asking({user({{.content = file}})})), HasSubstr("file id"));
  MediaPart picture{.source = MediaPart::Source::kFile, .data = "file-1"};
  EXPECT_THAT(refusal_of(asking({user({{.content = picture}})})), HasSubstr("image by its file"));
}

TEST(ChatFromOthersTest, WhatOnlyOthersKnowIsRefusedByName) {
  EXPECT_THAT(refusal_of(asking(
                  {assistant({{.content = OpaquePart{.type = "server_tool_use", .json = "{}"}}})})),
              HasSubstr("\"server_tool_use\""));
  auto request = asking_hi();
  request.tools = {{.kind = Tool::Kind::kServer, .name = "web_search_20250305", .schema = "{}"}};
  EXPECT_THAT(refusal_of(request), HasSubstr("\"web_search_20250305\""));
}

TEST(ChatFromOthersTest, FieldsThatTheAnswerDependsOnAreRefusedAndOthersNamed) {
  for (const char* const name : {"previous_response_id", "conversation", "background", "prompt",
                                 "container", "mcp_servers", "top_logprobs"}) {
    auto request = asking_hi(Protocol::kResponses);
    request.extras = {{.name = name, .json = "\"x\""}};
    EXPECT_THAT(refusal_of(request), HasSubstr(name));
  }
  auto request = asking_hi(Protocol::kResponses);
  request.extras = {{.name = "background", .json = "false"},
                    {.name = "service_tier", .json = "\"flex\""},
                    {.name = "metadata", .json = R"({"a":"b"})"},
                    {.name = "prompt_cache_key", .json = "\"k\""}};
  EXPECT_THAT(write(request).omitted, ElementsAre("service_tier", "metadata"));
}

TEST(ChatFromOthersTest, BudgetsBecomeEffortsAndChooseTheNameOfTheLimit) {
  auto request = asking_hi();
  request.output_tokens_max = 500;
  EXPECT_THAT(write(request).body, HasSubstr(R"("max_tokens":500)"));
  request.thinking = {.kind = ThinkingWish::Kind::kBudget, .budget_tokens = 16'000};
  EXPECT_THAT(write(request).body,
              HasSubstr(R"("max_completion_tokens":500,"reasoning_effort":"high")"));
  request.thinking = {.kind = ThinkingWish::Kind::kAdaptive, .effort = "xhigh"};
  EXPECT_THAT(write(request).body, HasSubstr(R"("reasoning_effort":"high")"));
  EXPECT_THAT(write(request, "gpt-5.2").body, HasSubstr(R"("reasoning_effort":"xhigh")"));
  request.thinking = {.kind = ThinkingWish::Kind::kAdaptive};
  EXPECT_THAT(write(request).body, Not(HasSubstr("reasoning_effort")));
  request.thinking = {};
  EXPECT_THAT(write(request, "gpt-5-mini").body, HasSubstr(R"("max_completion_tokens":500)"));
  request.protocol = Protocol::kResponses;
  EXPECT_THAT(write(request).body, HasSubstr(R"("max_completion_tokens":500)"));
}

TEST(ChatFromOthersTest, WhatChatItselfCallsTheLimitKeepsItsName) {
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    const std::string field = "\"" + std::string(name) + "\":7";
    const auto request = chat_protocol().read_request(
        R"({"model":"m","messages":[{"role":"user","content":"hi"}],)" + field + "}");
    ASSERT_TRUE(request);
    EXPECT_THAT(write(*request, "gpt-5").body, HasSubstr(field));
  }
}

TEST(ChatFromOthersTest, ThinkingOffIsSaidOnlyWhereItMeansSomething) {
  auto request = asking_hi();
  request.thinking.kind = ThinkingWish::Kind::kOff;
  const auto silent = write(request);
  EXPECT_THAT(silent.body, Not(HasSubstr("reasoning_effort")));
  EXPECT_THAT(silent.omitted, ElementsAre("thinking"));
  request.protocol = Protocol::kResponses;
  EXPECT_THAT(write(request).body, HasSubstr(R"("reasoning_effort":"none")"));
}

TEST(ChatFromOthersTest, MoreThanFourStopsAreCutAndNamed) {
  auto request = asking_hi();
  request.stop = {"a", "b", "c", "d", "e"};
  request.top_k = 5;
  request.user = std::string(65, 'u');
  const auto written = write(request);
  EXPECT_THAT(written.body, HasSubstr(R"("stop":["a","b","c","d"])"));
  EXPECT_THAT(written.omitted, ElementsAre("top_k", "stop", "user"));
}

TEST(ChatFromOthersTest, ToolsAndChoicesAreMapped) {
  auto request = asking_hi();
  request.tools = {{.name = "f", .description = "d", .schema = R"({"$ref":"#/x"})", .strict = true},
                   {.name = "g"},
                   {.kind = Tool::Kind::kFreeForm,
                    .name = "p",
                    .schema = R"({"type":"grammar","syntax":"lark","definition":"s"})"}};
  request.tool_choice = {.kind = ToolChoice::Kind::kAny};
  request.parallel_tools = false;
  EXPECT_THAT(
      write(request).body,
      HasSubstr(
          R"("tools":[{"type":"function","function":{"name":"f","description":"d","parameters":)"
          R"({"$ref":"#/x"},"strict":true}},{"type":"function","function":{"name":"g","parameters":)"
          R"({"type":"object","properties":{}}}},{"type":"custom","custom":{"name":"p","format":)"
          R"({"type":"grammar","grammar":{"definition":"s","syntax":"lark"}}}}],)"
          R"("tool_choice":"required","parallel_tool_calls":false)"));
  request.tool_choice = {.kind = ToolChoice::Kind::kOne, .name = "p"};
  EXPECT_THAT(write(request).body,
              HasSubstr(R"("tool_choice":{"type":"custom","custom":{"name":"p"}})"));
  request.tools.clear();
  EXPECT_THAT(write(request).body, Not(HasSubstr("tool")));
}

TEST(ChatFromOthersTest, StructuredOutputHasANameInAnyCase) {
  auto request = asking_hi();
  request.format = {.kind = OutputFormat::Kind::kSchema, .schema = R"({"type":"object"})"};
  EXPECT_THAT(write(request).body,
              HasSubstr(R"("response_format":{"type":"json_schema","json_schema":)"
                        R"({"name":"answer","schema":{"type":"object"}}})"));
  request.format = {.kind = OutputFormat::Kind::kJson};
  EXPECT_THAT(write(request).body, HasSubstr(R"("response_format":{"type":"json_object"})"));
}

TEST(ChatFromOthersTest, TheProviderIsAskedForUsageInAnyCase) {
  auto request = asking_hi(Protocol::kChat);
  request.stream = true;
  request.stream_usage = false;
  EXPECT_THAT(write(request).body,
              HasSubstr(R"("stream":true,"stream_options":{"include_usage":true})"));
}

}  // namespace
}  // namespace pons::models
