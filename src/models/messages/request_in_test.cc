#include <gtest/gtest.h>

#include "pons/models/protocol.h"
#include "pons/models/thinking.h"

namespace pons::models {
namespace {

Request read(std::string_view body) {
  auto request = messages_protocol().read_request(body);
  EXPECT_TRUE(request) << request.error().describe();
  return request ? std::move(*request) : Request{};
}

std::string error_of(std::string_view body) {
  const auto request = messages_protocol().read_request(body);
  return request ? "" : request.error().message;
}

// The request with `message` as its only one.
std::string with_message(std::string_view message) {
  return R"({"model":"m","max_tokens":9,"messages":[)" + std::string(message) + "]}";
}
std::string with_block(std::string_view role, std::string_view block) {
  return with_message(R"({"role":")" + std::string(role) + R"(","content":[)" + std::string(block) +
                      "]}");
}
Part only_part(std::string_view body) {
  const Request request = read(body);
  return request.messages.at(0).parts.at(0);
}

TEST(MessagesRequestIn, AStringAndABlockOfTextAreTheSame) {
  const Request string = read(with_message(R"({"role":"user","content":"hi"})"));
  const Request block = read(with_block("user", R"({"type":"text","text":"hi"})"));
  EXPECT_EQ(string, block);
  EXPECT_EQ(string.model, "m");
  EXPECT_EQ(string.output_tokens_max, 9);
  EXPECT_EQ(string.protocol, Protocol::kMessages);
}

TEST(MessagesRequestIn, TheSystemPromptIsTheFirstMessageWithItsCacheHints) {
  const Request request = read(
      R"({"model":"m","system":[{"type":"text","text":"a"},
      {"type":"text","text":"b","cache_control":{"type":"ephemeral","ttl":"1h"}}],
      "messages":[{"role":"user","content":"x"},{"role":"system","content":"late"}]})");
  ASSERT_EQ(request.messages.size(), 3U);
  EXPECT_EQ(request.messages[0].role, Role::kSystem);
  ASSERT_EQ(request.messages[0].parts.size(), 2U);
  EXPECT_FALSE(request.messages[0].parts[0].cache);
  EXPECT_EQ(request.messages[0].parts[1].cache, CacheHint{.one_hour = true});
  EXPECT_EQ(request.messages[2].role, Role::kSystem);
}

TEST(MessagesRequestIn, AnEmptySystemPromptIsNone) {
  for (const char* system : {"\"\"", "[]", "null"}) {
    const Request request =
        read(R"({"model":"m","messages":[{"role":"user","content":"x"}],"system":)" +
             std::string(system) + "}");
    EXPECT_EQ(request.messages.size(), 1U) << system;
  }
}

TEST(MessagesRequestIn, ImagesAndDocumentsKeepTheirSource) {
  const auto image =
      std::get<MediaPart>(only_part(with_block("user", R"({"type":"image","source":{"type":"base64",
      "media_type":"image/png","data":"AAAA"}})"))
                              .content);
  EXPECT_EQ(image, (MediaPart{.media_type = "image/png", .data = "AAAA"}));
  const auto url = std::get<MediaPart>(
      only_part(with_block("user", R"({"type":"image","source":{"type":"url","url":"https://x"}})"))
          .content);
  EXPECT_EQ(url.source, MediaPart::Source::kUrl);
  EXPECT_EQ(url.data, "https://x");
  const auto file = std::get<MediaPart>(
      only_part(with_block("user", R"({"type":"document","source":{"type":"file","file_id":"f1"},
      "title":"T","context":"C","citations":{"enabled":true}})"))
          .content);
  EXPECT_EQ(file, (MediaPart{.kind = MediaPart::Kind::kDocument,
                             .source = MediaPart::Source::kFile,
                             .data = "f1",
                             .name = "T",
                             .context = "C",
                             .with_citations = true}));
  const auto text = std::get<MediaPart>(
      only_part(with_block("user", R"({"type":"document","source":{"type":"text",
      "media_type":"text/plain","data":"words"}})"))
          .content);
  EXPECT_EQ(text.source, MediaPart::Source::kText);
}

TEST(MessagesRequestIn, WhatOnlyAnthropicKnowsIsKeptAsItIs) {
  for (const char* block :
       {R"({"type":"search_result","source":"s","title":"t","content":[]})",
        R"({"type":"document","source":{"type":"content","content":"words"}})",
        R"({"type":"web_search_tool_result","tool_use_id":"s1","content":[]})"}) {
    const Part part = only_part(with_block("user", block));
    ASSERT_TRUE(std::holds_alternative<OpaquePart>(part.content)) << block;
    EXPECT_EQ(std::get<OpaquePart>(part.content).json, block);
  }
}

TEST(MessagesRequestIn, ToolResultsHoldTextImagesOrNothing) {
  const auto result = std::get<ToolResultPart>(
      only_part(with_block("user", R"({"type":"tool_result","tool_use_id":"t1","is_error":true,
      "content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64",
      "media_type":"image/png","data":"AAAA"}}]})"))
          .content);
  EXPECT_EQ(result.call_id, "t1");
  EXPECT_TRUE(result.is_error);
  ASSERT_EQ(result.content.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<MediaPart>(result.content[1].content));
  const auto bare = std::get<ToolResultPart>(
      only_part(with_block("user", R"({"type":"tool_result","tool_use_id":"t1"})")).content);
  EXPECT_TRUE(bare.content.empty());
}

TEST(MessagesRequestIn, ThinkingOfAnotherProviderIsKnownAgain) {
  const ThinkingPart theirs{
      .text = "because", .proof = R"({"id":"rs_1"})", .author = Protocol::kResponses};
  const auto part =
      only_part(with_block("assistant", R"({"type":"thinking","thinking":"because","signature":")" +
                                            carry_proof(theirs) + "\"}"));
  EXPECT_EQ(std::get<ThinkingPart>(part.content), theirs);
  const auto own = only_part(
      with_block("assistant", R"({"type":"thinking","thinking":"so","signature":"EqQB"})"));
  EXPECT_EQ(std::get<ThinkingPart>(own.content), (ThinkingPart{.text = "so", .proof = "EqQB"}));
}

TEST(MessagesRequestIn, ToolsAreFunctionsOrTheServersOwn) {
  const Request request = read(R"({"model":"m","messages":[{"role":"user","content":"x"}],"tools":[
      {"name":"f","description":"d","input_schema":{"type":"object","$defs":{"a":{}}},"strict":true,
       "cache_control":{"type":"ephemeral"},"eager_input_streaming":true},
      {"type":"web_search_20250305","name":"web_search","max_uses":3}],
      "tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}})");
  ASSERT_EQ(request.tools.size(), 2U);
  EXPECT_EQ(request.tools[0].schema, R"({"type":"object","$defs":{"a":{}}})");
  EXPECT_EQ(request.tools[0].strict, true);
  EXPECT_TRUE(request.tools[0].cache);
  EXPECT_EQ(request.tools[0].extras.at(0).name, "eager_input_streaming");
  EXPECT_EQ(request.tools[1].kind, Tool::Kind::kServer);
  EXPECT_EQ(request.tools[1].name, "web_search");
  EXPECT_EQ(request.tool_choice, (ToolChoice{ToolChoice::Kind::kOne, "f"}));
  EXPECT_EQ(request.parallel_tools, false);
}

TEST(MessagesRequestIn, ThinkingEffortAndFormatAreRead) {
  const auto read_with = [](const std::string& fields) {
    return read(R"({"model":"m","messages":[{"role":"user","content":"x"}],)" + fields + "}");
  };
  using Kind = ThinkingWish::Kind;
  EXPECT_EQ(read_with(R"("thinking":{"type":"enabled","budget_tokens":2000})").thinking,
            (ThinkingWish{.kind = Kind::kBudget, .budget_tokens = 2000}));
  EXPECT_EQ(
      read_with(R"("thinking":{"type":"adaptive"},"output_config":{"effort":"xhigh"})").thinking,
      (ThinkingWish{.kind = Kind::kAdaptive, .effort = "xhigh"}));
  EXPECT_EQ(read_with(R"("output_config":{"effort":"low"})").thinking,
            (ThinkingWish{.kind = Kind::kEffort, .effort = "low"}));
  EXPECT_EQ(read_with(R"("thinking":{"type":"disabled"})").thinking.kind, Kind::kOff);
  const OutputFormat schema{.kind = OutputFormat::Kind::kSchema, .schema = R"({"type":"object"})"};
  EXPECT_EQ(
      read_with(R"("output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})")
          .format,
      schema);
  EXPECT_EQ(
      read_with(R"("output_format":{"type":"json_schema","schema":{"type":"object"}})").format,
      schema);
}

TEST(MessagesRequestIn, WhatIsNotKnownGoesToTheExtras) {
  const Request request = read(R"({"model":"m","messages":[{"role":"user","content":"x"}],
      "context_management":{"edits":[]},"metadata":{"user_id":"u","more":1},
      "thinking":{"type":"adaptive","display":"omitted"},"service_tier":"auto"})");
  EXPECT_EQ(request.user, "u");
  const std::vector<ExtraField> expected = {{"thinking.display", "\"omitted\""},
                                            {"metadata.more", "1"},
                                            {"context_management", R"({"edits":[]})"},
                                            {"service_tier", "\"auto\""}};
  EXPECT_EQ(request.extras, expected);
}

TEST(MessagesRequestIn, ErrorsNameThePlace) {
  EXPECT_EQ(error_of(with_block("user", R"({"type":"imge"})")),
            "messages[0].content[0].type: \"imge\" is not a kind of content here");
  EXPECT_EQ(error_of(with_block("user", R"({"type":"tool_use","id":"a","name":"b","input":{}})")),
            "messages[0].content[0].type: \"tool_use\" is not a kind of content here");
  EXPECT_EQ(
      error_of(with_block("assistant", R"({"type":"tool_use","id":"a","name":"b","input":"{}"})")),
      "messages[0].content[0].input: must be an object");
  EXPECT_EQ(error_of(with_message(R"({"role":"tool","content":"x"})")),
            "messages[0].role: must be \"user\", \"assistant\" or \"system\"");
  EXPECT_EQ(error_of(R"({"model":"m","messages":[]})"),
            "messages: at least one message of the user is needed");
  EXPECT_EQ(error_of(R"({"messages":[]})"), "\"model\" is missing");
  EXPECT_EQ(
      error_of(
          R"({"model":"m","messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"x"}})"),
      "tool_choice.type: must be \"auto\", \"any\", \"none\" or \"tool\"");
  EXPECT_EQ(
      error_of(
          R"({"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"name":"a"}]})"),
      "tools[0]: \"input_schema\" is missing");
  EXPECT_EQ(error_of(R"({"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":-1})"),
            "max_tokens: must not be negative");
  EXPECT_NE(error_of("[]"), "");
  EXPECT_NE(error_of("not json"), "");
}

}  // namespace
}  // namespace pons::models
