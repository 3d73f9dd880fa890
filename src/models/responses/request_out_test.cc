#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pons/models/protocol.h"

namespace pons::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Request from(Protocol protocol) {
  Request request{.protocol = protocol, .model = "client"};
  request.messages.push_back({.parts = {{.content = TextPart{.text = "hi"}}}});
  return request;
}

std::string write(const Request& request) {
  Omitted omitted;
  auto body = responses_protocol().write_request(request, "gpt", omitted);
  EXPECT_TRUE(body) << body.error().describe();
  return body ? *body : "";
}

Omitted omitted_of(const Request& request) {
  Omitted omitted;
  EXPECT_TRUE(responses_protocol().write_request(request, "gpt", omitted));
  return omitted;
}

std::string refusal_of(const Request& request) {
  Omitted omitted;
  const auto body = responses_protocol().write_request(request, "gpt", omitted);
  if (body) return "";
  EXPECT_EQ(body.error().code, ErrorCode::kInvalid);
  return body.error().message;
}

TEST(ResponsesRequestOutTest, TheProviderKeepsNothingForClientsOfOtherProtocols) {
  EXPECT_EQ(write(from(Protocol::kMessages)),
            R"({"model":"gpt","input":[{"type":"message","role":"user","content":"hi"}],)"
            R"("store":false})");
}

TEST(ResponsesRequestOutTest, TheFirstSystemMessageBecomesInstructions) {
  Request request = from(Protocol::kMessages);
  request.messages.insert(request.messages.begin(),
                          {.role = Role::kSystem,
                           .parts = {{.content = TextPart{.text = "a"}, .cache = CacheHint{}},
                                     {.content = TextPart{.text = "b"}}}});
  request.messages.push_back(
      {.role = Role::kSystem, .parts = {{.content = TextPart{.text = "later"}}}});
  const auto body = write(request);
  EXPECT_THAT(body, HasSubstr(R"("instructions":"a\n\nb")"));
  EXPECT_THAT(body, HasSubstr(R"({"type":"message","role":"system","content":"later"})"));
  EXPECT_THAT(body, Not(HasSubstr("prompt_cache_breakpoint")));
}

TEST(ResponsesRequestOutTest, FunctionsOfOthersAreLooseUnlessTheySayStrict) {
  Request request = from(Protocol::kChat);
  request.tools = {{.name = "f", .schema = R"({"type":"object"})"}, {.name = "g", .strict = true}};
  const auto body = write(request);
  EXPECT_THAT(body, HasSubstr(R"("name":"f","parameters":{"type":"object"},"strict":false)"));
  EXPECT_THAT(body, HasSubstr(R"({"type":"object","properties":{}},"strict":true)"));
}

TEST(ResponsesRequestOutTest, ThinkingIsMappedToEffort) {
  using Kind = ThinkingWish::Kind;
  const auto wish = [](Protocol protocol, ThinkingWish thinking) {
    Request request = from(protocol);
    request.thinking = std::move(thinking);
    return write(request);
  };
  EXPECT_THAT(wish(Protocol::kMessages, {.kind = Kind::kBudget, .budget_tokens = 10'000}),
              HasSubstr(R"("reasoning":{"effort":"high","summary":"auto"})"));
  EXPECT_THAT(wish(Protocol::kMessages, {.kind = Kind::kAdaptive}),
              HasSubstr(R"("reasoning":{"summary":"auto"})"));
  EXPECT_THAT(wish(Protocol::kMessages, {.kind = Kind::kAdaptive, .effort = "max"}),
              HasSubstr(R"("effort":"high")"));
  EXPECT_THAT(wish(Protocol::kMessages, {.kind = Kind::kOff}), Not(HasSubstr("reasoning")))
      << "models that always think refuse the word, and those that never do";
  EXPECT_THAT(wish(Protocol::kChat, {.kind = Kind::kOff}),
              HasSubstr(R"("reasoning":{"effort":"none"})"));
  for (const char* effort : {"minimal", "low", "medium", "high", "xhigh"})
    EXPECT_THAT(wish(Protocol::kChat, {.kind = Kind::kEffort, .effort = effort}),
                HasSubstr("\"reasoning\":{\"effort\":\"" + std::string(effort) + "\"}"));
  EXPECT_THAT(wish(Protocol::kChat, {.kind = Kind::kEffort, .effort = "low"}),
              HasSubstr(R"("include":["reasoning.encrypted_content"])"));
  EXPECT_THAT(wish(Protocol::kChat, {}), Not(HasSubstr("include")));
}

TEST(ResponsesRequestOutTest, OnlyItsOwnReasoningWithAProofGoesBackToAProvider) {
  Request request = from(Protocol::kMessages);
  request.messages.push_back(
      {.role = Role::kAssistant,
       .parts = {{.content = ThinkingPart{.text = "claude", .proof = "sig"}},
                 {.content = ThinkingPart{.text = "seen",
                                          .proof = R"({"id":"rs_1","encrypted_content":"E=="})",
                                          .author = Protocol::kResponses}},
                 {.content = ThinkingPart{.text = "unproven",
                                          .proof = R"({"id":"rs_2"})",
                                          .author = Protocol::kResponses}},
                 {.content = TextPart{.text = "said"}}}});
  const auto body = write(request);
  EXPECT_THAT(body, HasSubstr(R"({"type":"reasoning","id":"rs_1","summary":[{"type":)"
                              R"("summary_text","text":"seen"}],"encrypted_content":"E=="},)"
                              R"({"type":"message","role":"assistant","content":"said"})"));
  EXPECT_THAT(body, Not(HasSubstr("claude")));
  EXPECT_THAT(body, Not(HasSubstr("rs_2")));
}

TEST(ResponsesRequestOutTest, ImagesAndDocumentsAreMapped) {
  using Source = MediaPart::Source;
  Request request = from(Protocol::kMessages);
  auto& parts = request.messages[0].parts;
  parts.push_back({.content = MediaPart{.media_type = "image/png", .data = "AA"}});
  parts.push_back({.content = MediaPart{.source = Source::kUrl, .data = "https://x/i"}});
  const auto document = MediaPart::Kind::kDocument;
  parts.push_back(
      {.content = MediaPart{.kind = document, .media_type = "application/pdf", .data = "BB"}});
  parts.push_back({.content = MediaPart{.kind = document,
                                        .source = Source::kText,
                                        .data = "body",
                                        .name = "title",
                                        .context = "ctx"}});
  const auto body = write(request);
  EXPECT_THAT(body, HasSubstr(R"("image_url":"data:image/png;base64,AA")"));
  EXPECT_THAT(body, HasSubstr(R"("image_url":"https://x/i")"));
  EXPECT_THAT(body,
              HasSubstr(R"({"type":"input_file","file_data":"data:application/pdf;base64,BB",)"
                        R"("filename":"document.pdf"})"));
  EXPECT_THAT(body, HasSubstr(R"({"type":"input_text","text":"ctx"},{"type":"input_text","text":)"
                              R"("title"},{"type":"input_text","text":"body"})"));
  std::get<MediaPart>(parts.back().content).with_citations = true;
  EXPECT_THAT(refusal_of(request), HasSubstr("citations"));
}

Request with_call(Protocol protocol, bool free_form) {
  Request request = from(protocol);
  ToolCallPart call{.id = "c1", .name = "f", .input = ""};
  call.free_form = free_form;
  request.messages.push_back({.role = Role::kAssistant, .parts = {{.content = call}}});
  ToolResultPart result{.call_id = "c1", .content = {{.content = TextPart{.text = "r"}}}};
  request.messages.push_back({.parts = {{.content = result}}});
  return request;
}

TEST(ResponsesRequestOutTest, ToolResultsKeepImages) {
  Request request = with_call(Protocol::kMessages, false);
  auto& result = std::get<ToolResultPart>(request.messages[2].parts[0].content);
  result.content.push_back({.content = MediaPart{.media_type = "image/png", .data = "AA"}});
  const auto body = write(request);
  EXPECT_THAT(body, HasSubstr(R"("name":"f","arguments":"{}")"));
  EXPECT_THAT(body, HasSubstr(R"("output":[{"type":"input_text","text":"r"},)"
                              R"({"type":"input_image","image_url":"data:image/png;base64,AA"}])"));
}

TEST(ResponsesRequestOutTest, AResultIsOfTheKindOfItsCall) {
  EXPECT_THAT(write(with_call(Protocol::kChat, true)), HasSubstr("custom_tool_call_output"));
  EXPECT_THAT(write(with_call(Protocol::kChat, false)), HasSubstr(R"("function_call_output")"));
}

TEST(ResponsesRequestOutTest, CallsWithoutResultsAndResultsWithoutCallsAreRefused) {
  Request request = with_call(Protocol::kMessages, false);
  request.messages.pop_back();
  EXPECT_THAT(refusal_of(request), HasSubstr("\"c1\" has no result"));
  request = with_call(Protocol::kMessages, false);
  request.messages.erase(request.messages.begin() + 1);
  EXPECT_THAT(refusal_of(request), HasSubstr("\"c1\" answers no call"));
}

TEST(ResponsesRequestOutTest, ToolChoicesAreMapped) {
  using Kind = ToolChoice::Kind;
  Request request = from(Protocol::kMessages);
  request.tools = {{.name = "f"}, {.kind = Tool::Kind::kFreeForm, .name = "c"}};
  const auto choice = [&](ToolChoice wish) {
    request.tool_choice = std::move(wish);
    return write(request);
  };
  EXPECT_THAT(choice({.kind = Kind::kAuto}), HasSubstr(R"("tool_choice":"auto")"));
  EXPECT_THAT(choice({.kind = Kind::kAny}), HasSubstr(R"("tool_choice":"required")"));
  EXPECT_THAT(choice({.kind = Kind::kNone}), HasSubstr(R"("tool_choice":"none")"));
  EXPECT_THAT(choice({.kind = Kind::kOne, .name = "f"}),
              HasSubstr(R"("tool_choice":{"type":"function","name":"f"})"));
  EXPECT_THAT(choice({.kind = Kind::kOne, .name = "c"}),
              HasSubstr(R"("tool_choice":{"type":"custom","name":"c"})"));
  request.parallel_tools = false;
  EXPECT_THAT(write(request), HasSubstr(R"("parallel_tool_calls":false)"));
}

TEST(ResponsesRequestOutTest, FormatsAreMapped) {
  Request request = from(Protocol::kMessages);
  request.format = {.kind = OutputFormat::Kind::kSchema, .schema = R"({"type":"object"})"};
  EXPECT_THAT(write(request), HasSubstr(R"("text":{"format":{"type":"json_schema","name":)"
                                        R"("answer","schema":{"type":"object"}}})"));
  request.format = {.kind = OutputFormat::Kind::kJson};
  EXPECT_THAT(write(request), HasSubstr(R"("text":{"format":{"type":"json_object"}})"));
}

TEST(ResponsesRequestOutTest, LimitsOfTheServiceAreKept) {
  Request request = from(Protocol::kMessages);
  request.output_tokens_max = 1;
  request.user = std::string(65, 'u');
  const auto body = write(request);
  EXPECT_THAT(body, HasSubstr(R"("max_output_tokens":16)"));
  EXPECT_THAT(body, ::testing::ContainsRegex("\"user\":\"[0-9a-f]{64}\""));
  request.user = "short";
  EXPECT_THAT(write(request), HasSubstr(R"("user":"short")"));
}

TEST(ResponsesRequestOutTest, WhatDoesNotChangeTheAnswerIsLeftOutByName) {
  Request request = from(Protocol::kMessages);
  request.top_k = 5;
  request.seed = 1;
  request.extras = {{"service_tier", "\"auto\""}, {"context_management", "{}"}};
  EXPECT_THAT(omitted_of(request),
              ElementsAre("top_k", "seed", "service_tier", "context_management"));
}

TEST(ResponsesRequestOutTest, FieldsThatChatSharesAreKept) {
  Request request = from(Protocol::kChat);
  request.extras = {{"service_tier", "\"flex\""},
                    {"metadata", R"({"a":"b"})"},
                    {"verbosity", "\"low\""},
                    {"store", "true"},
                    {"n", "1"},
                    {"logit_bias", "{}"}};
  EXPECT_THAT(omitted_of(request), ElementsAre("logit_bias"));
  const auto body = write(request);
  EXPECT_THAT(body, HasSubstr(R"("service_tier":"flex")"));
  EXPECT_THAT(body, HasSubstr(R"("text":{"verbosity":"low"})"));
  EXPECT_THAT(body, HasSubstr(R"("store":true)"));
}

TEST(ResponsesRequestOutTest, WhatChangesTheAnswerIsRefusedByName) {
  Request request = from(Protocol::kMessages);
  request.stop = {"END"};
  EXPECT_THAT(refusal_of(request), HasSubstr("stop:"));
  for (const auto& [name, json] :
       {std::pair("n", "2"), std::pair("logprobs", "true"), std::pair("audio", "{}"),
        std::pair("mcp_servers", "[{}]"), std::pair("container", "\"c\""),
        std::pair("web_search_options", "{}"), std::pair("modalities", R"(["text","audio"])")}) {
    Request other = from(Protocol::kChat);
    other.extras = {{name, json}};
    EXPECT_THAT(refusal_of(other), HasSubstr(std::string(name) + ":"));
  }
  Request opaque = from(Protocol::kMessages);
  opaque.messages[0].parts.push_back({.content = OpaquePart{.type = "web_search_tool_result"}});
  EXPECT_THAT(refusal_of(opaque), HasSubstr("web_search_tool_result"));
  Request server = from(Protocol::kMessages);
  server.tools = {{.kind = Tool::Kind::kServer, .name = "web_search_20250305", .schema = "{}"}};
  EXPECT_THAT(refusal_of(server), HasSubstr("web_search_20250305"));
}

}  // namespace
}  // namespace pons::models
