#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "messages/foreign.h"
#include "pons/base/json.h"
#include "pons/models/protocol.h"

namespace pons::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr const char* kOldModel = "claude-sonnet-4-5";
constexpr const char* kNewModel = "claude-opus-4-6";

struct Outcome {
  Json body;
  Omitted omitted;
  std::string error;
};

Outcome write(const Request& request, std::string_view model = kOldModel) {
  Outcome outcome;
  const auto written = messages_protocol().write_request(request, model, outcome.omitted);
  if (!written) {
    EXPECT_EQ(written.error().code, ErrorCode::kInvalid);
    outcome.error = written.error().message;
    return outcome;
  }
  outcome.body = parse_json(*written).value();
  return outcome;
}

Message says(Role role, std::string text) {
  return {role, {{TextPart{std::move(text)}}}};
}
Message calls(std::string id, std::string name = "f", std::string input = "{}") {
  return {
      Role::kAssistant,
      {{ToolCallPart{.id = std::move(id), .name = std::move(name), .input = std::move(input)}}}};
}
Message gives(std::string id, std::string text) {
  return {Role::kUser,
          {{ToolResultPart{.call_id = std::move(id), .content = {{TextPart{std::move(text)}}}}}}};
}
Request foreign(std::vector<Message> messages) {
  return {.protocol = Protocol::kChat, .model = "any", .messages = std::move(messages)};
}
Json messages_of(const Request& request) {
  const Outcome outcome = write(request);
  EXPECT_EQ(outcome.error, "");
  return outcome.body.value("messages", Json::array());
}
Json json(std::string_view text) {
  return parse_json(text).value();
}

// Rich in all that the protocol has.
constexpr const char* kRich =
    R"({"model":"m","max_tokens":1000,"temperature":0.5,"top_p":0.9,"top_k":5,
  "stream":true,"stop_sequences":["END"],"metadata":{"user_id":"{\"device\":1}","x":[1]},
  "system":[{"type":"text","text":"x-anthropic-billing-header: v"},
   {"type":"text","text":"s","cache_control":{"type":"ephemeral","scope":"global"}}],
  "messages":[{"role":"user","content":"hi"},
   {"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"sig=="},
     {"type":"redacted_thinking","data":"blob"},
     {"type":"text","text":"see","citations":[{"type":"char_location","cited_text":"c"}]},
     {"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}},
     {"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result"}]},
     {"type":"tool_use","id":"t1","name":"f","input":{"a":[1,2.5,null]},"caller":{"type":"direct"}}]},
   {"role":"user","content":[
     {"type":"tool_result","tool_use_id":"t1","is_error":true,"cache_control":{"type":"ephemeral","ttl":"1h"},
      "content":[{"type":"text","text":"r"},{"type":"image","source":{"type":"url","url":"https://x"}},
       {"type":"search_result","source":"s","title":"t","content":[]}]},
     {"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="},
      "title":"T","context":"C","citations":{"enabled":true}},
     {"type":"image","source":{"type":"file","file_id":"f"},"transformations":{"oversized_image":"error"}}]},
   {"role":"system","content":"by the way"},
   {"role":"user","content":[],"id":"m1"}],
  "tools":[{"name":"f","description":"d","input_schema":{"type":"object","$defs":{"x":{"$ref":"#"}}},
    "strict":false,"defer_loading":true,"cache_control":{"type":"ephemeral"}},
   {"type":"bash_20250124","name":"bash"}],
  "tool_choice":{"type":"any","disable_parallel_tool_use":false},
  "thinking":{"type":"enabled","budget_tokens":2048,"display":"omitted"},
  "output_config":{"effort":"max","format":{"type":"json_schema","schema":{"type":"object"}},"task_budget":{"total":5}},
  "context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]},"mcp_servers":[],"service_tier":"auto"})";

TEST(MessagesRequestOut, ARequestOfTheSameProtocolComesOutAsItWentIn) {
  const auto request = messages_protocol().read_request(kRich);
  ASSERT_TRUE(request) << request.error().describe();
  const Outcome outcome = write(*request, "other");
  EXPECT_THAT(outcome.omitted, ElementsAre());
  nlohmann::json expected = nlohmann::json::parse(kRich);
  expected["model"] = "other";
  // Without order: the order of fields says nothing.
  EXPECT_EQ(nlohmann::json::parse(dump_json(outcome.body)), expected);
}

TEST(MessagesRequestOut, ReadingWhatWasWrittenGivesTheSameRequest) {
  const auto request = messages_protocol().read_request(kRich);
  Omitted omitted;
  const auto written = messages_protocol().write_request(*request, request->model, omitted);
  ASSERT_TRUE(written);
  EXPECT_EQ(messages_protocol().read_request(*written).value(), *request);
}

TEST(MessagesRequestOut, NeighboursWithTheSameRoleAreOneTurn) {
  EXPECT_EQ(
      messages_of(foreign({says(Role::kUser, "a"), says(Role::kUser, "b"),
                           says(Role::kAssistant, "c"), says(Role::kAssistant, "")})),
      json(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
                     {"role":"assistant","content":"c"}])"));
}

TEST(MessagesRequestOut, LeadingSystemMessagesAreTheSystemPromptAndLaterOnesAreMarked) {
  const Outcome outcome = write(foreign({says(Role::kSystem, "one"), says(Role::kDeveloper, "two"),
                                         says(Role::kUser, "a"), says(Role::kDeveloper, "three")}));
  EXPECT_EQ(outcome.body["system"],
            json(R"([{"type":"text","text":"one"},{"type":"text","text":"two"}])"));
  EXPECT_EQ(outcome.body["messages"], json(R"([{"role":"user","content":[{"type":"text","text":"a"},
                     {"type":"text","text":"<system>\nthree\n</system>"}]}])"));
}

TEST(MessagesRequestOut, TheUserSpeaksFirst) {
  EXPECT_EQ(messages_of(foreign({says(Role::kAssistant, "hello"), says(Role::kUser, "hi")}))[0],
            json(R"({"role":"user","content":"Begin."})"));
  EXPECT_EQ(messages_of(foreign({says(Role::kSystem, "all there is")})),
            json(R"([{"role":"user","content":"Begin."}])"));
}

TEST(MessagesRequestOut, ToolResultsComeFirstAndInTheOrderOfTheCalls) {
  Request request = foreign({says(Role::kUser, "go"), calls("a", "f", R"({"x":1})"), calls("b"),
                             says(Role::kUser, "meanwhile"), gives("b", "B"), gives("a", "A")});
  EXPECT_EQ(messages_of(request), json(R"([{"role":"user","content":"go"},
      {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"x":1}},
                                     {"type":"tool_use","id":"b","name":"f","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"A"},
                                {"type":"tool_result","tool_use_id":"b","content":"B"},
                                {"type":"text","text":"meanwhile"}]}])"));
}

TEST(MessagesRequestOut, AnAnswerAfterAToolResultIsATurnOfItsOwn) {
  const Json messages =
      messages_of(foreign({says(Role::kUser, "go"), calls("a"), gives("a", "A"),
                           says(Role::kAssistant, "done"), calls("b"), gives("b", "B")}));
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[3]["content"][0]["text"], "done");
  EXPECT_EQ(messages[4]["content"][0]["tool_use_id"], "b");
}

TEST(MessagesRequestOut, IdsThatAnthropicRefusesAreReplacedOnBothSides) {
  const Json messages = messages_of(
      foreign({says(Role::kUser, "go"), calls("functions.f:0"), gives("functions.f:0", "1"),
               calls("functions.f:0"), gives("functions.f:0", "2")}));
  const std::string first = messages[1]["content"][0]["id"];
  const std::string second = messages[3]["content"][0]["id"];
  EXPECT_NE(first, second);
  EXPECT_THAT(first, testing::StartsWith("toolu_"));
  EXPECT_EQ(messages[2]["content"][0]["tool_use_id"], first);
  EXPECT_EQ(messages[2]["content"][0]["content"], "1");
  EXPECT_EQ(messages[4]["content"][0]["tool_use_id"], second);
}

TEST(MessagesRequestOut, CallsAndResultsThatMissEachOtherAreRefused) {
  EXPECT_EQ(write(foreign({says(Role::kUser, "go"), calls("a"), says(Role::kUser, "well?")})).error,
            "tool call \"a\" (f) has no result: add one after it");
  EXPECT_EQ(write(foreign({says(Role::kUser, "go"), gives("z", "Z")})).error,
            "a tool result for call \"z\", which no message before it makes");
  EXPECT_THAT(
      write(foreign({says(Role::kUser, "go"), calls("a"), gives("a", "1"), gives("a", "2")})).error,
      HasSubstr("no message before it makes"));
}

TEST(MessagesRequestOut, ArgumentsThatAreNoObjectAreRefused) {
  for (const char* input : {"[1]", "\"x\"", "{", "7"})
    EXPECT_EQ(
        write(foreign({says(Role::kUser, "go"), calls("a", "f", input), gives("a", "1")})).error,
        "the arguments of tool call \"a\" (f) are no JSON object");
}

TEST(MessagesRequestOut, FreeFormToolsBecomeFunctionsWithOneString) {
  Request request =
      foreign({says(Role::kUser, "go"), calls("a", "patch", "*** \"Begin\""), gives("a", "ok")});
  std::get<ToolCallPart>(request.messages[1].parts[0].content).free_form = true;
  request.tools = {{.kind = Tool::Kind::kFreeForm,
                    .name = "patch",
                    .description = "Edits.",
                    .schema = R"({"type":"grammar","syntax":"lark","definition":"start: A"})"}};
  const Outcome outcome = write(request);
  EXPECT_EQ(outcome.body["messages"][1]["content"][0]["input"],
            json(R"({"input":"*** \"Begin\""})"));
  EXPECT_EQ(outcome.body["tools"][0]["input_schema"]["required"], json(R"(["input"])"));
  EXPECT_EQ(outcome.body["tools"][0]["description"],
            "Edits.\n\nThe input must follow this lark grammar:\nstart: A");
}

TEST(MessagesRequestOut, OnlyAnthropicsThinkingIsSentAndComesFirst) {
  const Message thought{
      Role::kAssistant,
      {{TextPart{"text"}},
       {ThinkingPart{.text = "mine", .proof = "sig"}},
       {ThinkingPart{.text = "theirs", .proof = "{}", .author = Protocol::kResponses}},
       {ThinkingPart{.text = "unproven"}},
       {ThinkingPart{.proof = "blob", .redacted = true}}}};
  EXPECT_EQ(messages_of(foreign({says(Role::kUser, "go"), thought, says(Role::kUser, "on")}))[1],
            json(R"({"role":"assistant","content":[
      {"type":"thinking","thinking":"mine","signature":"sig"},
      {"type":"redacted_thinking","data":"blob"},{"type":"text","text":"text"}]})"));
}

TEST(MessagesRequestOut, ThinkingThatLeadsStaysInItsPlace) {
  const Message thought{Role::kAssistant,
                        {{ThinkingPart{.text = "1", .proof = "s1"}},
                         {TextPart{"text"}},
                         {ThinkingPart{.text = "2", .proof = "s2"}}}};
  const Json content = messages_of(
      foreign({says(Role::kUser, "go"), thought, says(Role::kUser, "on")}))[1]["content"];
  EXPECT_EQ(content[1]["type"], "text");
  EXPECT_EQ(content[2]["thinking"], "2");
}

TEST(MessagesRequestOut, TextsOfNothingButSpaceAreLeftOut) {
  EXPECT_EQ(
      messages_of(foreign({says(Role::kUser, "a"), says(Role::kAssistant, "\n"),
                           says(Role::kUser, "b"), says(Role::kAssistant, "so \n")})),
      json(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
                     {"role":"assistant","content":"so"}])"));
}

Message shows(MediaPart media) {
  return {Role::kUser, {{std::move(media)}}};
}

TEST(MessagesRequestOut, MediaIsSentInAFormThatAnthropicReads) {
  using Kind = MediaPart::Kind;
  using Source = MediaPart::Source;
  EXPECT_EQ(
      messages_of(foreign({shows({.media_type = "image/jpg", .data = "/9j/"})}))[0]["content"][0],
      json(
          R"({"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"/9j/"}})"));
  EXPECT_EQ(messages_of(foreign(
                {shows({.data = "iVBORw0KGgoAAA"})}))[0]["content"][0]["source"]["media_type"],
            "image/png");
  EXPECT_EQ(
      messages_of(foreign({shows({.kind = Kind::kDocument,
                                  .media_type = "text/csv",
                                  .data = "YSxi",
                                  .name = "t.csv"})}))[0]["content"][0],
      json(R"({"type":"document","source":{"type":"text","media_type":"text/plain","data":"a,b"},
                     "title":"t.csv"})"));
  EXPECT_THAT(write(foreign({shows({.media_type = "image/bmp", .data = "AA"})})).error,
              HasSubstr("PNG, JPEG, GIF and WebP"));
  EXPECT_THAT(
      write(foreign({shows({.kind = Kind::kDocument, .media_type = "application/zip"})})).error,
      HasSubstr("PDF and text files only"));
  EXPECT_THAT(write(foreign({shows({.source = Source::kFile, .data = "file-1"})})).error,
              HasSubstr("send the file's data"));
  EXPECT_THAT(
      write(foreign({shows({.media_type = "image/png", .data = "A", .detail = "low"})})).omitted,
      ElementsAre("detail"));
}

TEST(MessagesRequestOut, AnImageInAToolResultKeepsItsPlace) {
  Request request = foreign({says(Role::kUser, "go"), calls("a"), gives("a", "")});
  std::get<ToolResultPart>(request.messages[2].parts[0].content)
      .content.push_back({MediaPart{.media_type = "image/png", .data = "AAAA"}});
  EXPECT_EQ(
      messages_of(request)[2]["content"][0]["content"],
      json(
          R"([{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}])"));
}

TEST(MessagesRequestOut, WhatOnlyOthersKnowIsRefusedByName) {
  Request audio = foreign({{Role::kUser, {{OpaquePart{Protocol::kChat, "input_audio", "{}"}}}}});
  EXPECT_THAT(write(audio).error, HasSubstr("\"input_audio\" is known only to the chat protocol"));
  Request search = foreign({says(Role::kUser, "go")});
  search.tools = {
      {.kind = Tool::Kind::kServer, .name = "web_search", .protocol = Protocol::kResponses}};
  EXPECT_THAT(write(search).error, HasSubstr("tool \"web_search\" is run by providers"));
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"n", "2"},
                                                        {"logprobs", "true"},
                                                        {"previous_response_id", "\"r\""},
                                                        {"conversation", "\"c\""},
                                                        {"background", "true"},
                                                        {"prompt", "{\"id\":1}"},
                                                        {"modalities", R"(["text","audio"])"},
                                                        {"web_search_options", "{}"}}) {
    Request request = foreign({says(Role::kUser, "go")});
    request.extras = {{name, value}};
    EXPECT_THAT(write(request).error, testing::StartsWith(std::string(name) + ": ")) << name;
  }
}

TEST(MessagesRequestOut, WhatTheAnswerDoesNotDependOnIsLeftOutAndNamed) {
  Request request = foreign({says(Role::kUser, "go")});
  request.seed = 7;
  request.user = std::string(300, 'u');
  request.stop = {"", " \n", "END", "a", "b", "c", "d"};
  request.extras = {
      {"logit_bias", "{}"}, {"service_tier", "\"flex\""}, {"n", "1"}, {"logprobs", "false"}};
  const Outcome outcome = write(request);
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(outcome.omitted, UnorderedElementsAre("seed", "user", "stop", "logit_bias",
                                                    "service_tier", "logprobs"));
  EXPECT_EQ(outcome.body["stop_sequences"], json(R"(["END","a","b","c","d"])"));
  EXPECT_FALSE(outcome.body.contains("metadata"));
}

TEST(MessagesRequestOut, TheLimitIsTheClientsOrOneThatSufficesForAgents) {
  Request request = foreign({says(Role::kUser, "go")});
  EXPECT_EQ(write(request).body["max_tokens"], 32000);
  request.output_tokens_max = 50;
  request.user = "u1";
  EXPECT_EQ(write(request).body["max_tokens"], 50);
  EXPECT_EQ(write(request).body["metadata"]["user_id"], "u1");
}

TEST(MessagesRequestOut, ToolChoiceAndParallelToolsAreMapped) {
  using Kind = ToolChoice::Kind;
  Request request = foreign({says(Role::kUser, "go")});
  request.tools = {
      {.name = "f", .schema = R"({"properties":{"a":{"$ref":"#/$defs/x"}}})", .strict = true}};
  EXPECT_FALSE(write(request).body.contains("tool_choice"));
  EXPECT_EQ(
      write(request).body["tools"][0],
      json(
          R"({"name":"f","input_schema":{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}}},"strict":true})"));
  request.parallel_tools = false;
  EXPECT_EQ(write(request).body["tool_choice"],
            json(R"({"type":"auto","disable_parallel_tool_use":true})"));
  request.tool_choice = {.kind = Kind::kAny};
  EXPECT_EQ(write(request).body["tool_choice"],
            json(R"({"type":"any","disable_parallel_tool_use":true})"));
  request.parallel_tools = true;
  request.tool_choice = {.kind = Kind::kOne, .name = "f"};
  EXPECT_EQ(write(request).body["tool_choice"], json(R"({"type":"tool","name":"f"})"));
  request.tool_choice = {.kind = Kind::kNone};
  EXPECT_EQ(write(request).body["tool_choice"], json(R"({"type":"none"})"));
  request.tools.clear();
  EXPECT_FALSE(write(request).body.contains("tool_choice"));
  request.tool_choice = {.kind = Kind::kAny};
  EXPECT_THAT(write(request).error, HasSubstr("no tools to choose from"));
}

TEST(MessagesRequestOut, ToolsOfTheHistoryAreDeclaredButNotCalled) {
  const Outcome outcome = write(foreign({says(Role::kUser, "go"), calls("a"), gives("a", "A")}));
  EXPECT_EQ(outcome.body["tools"][0]["name"], "f");
  EXPECT_EQ(outcome.body["tool_choice"], json(R"({"type":"none"})"));
}

Outcome write_thinking(ThinkingWish wish, std::string_view model, std::optional<std::int64_t> max,
                       ToolChoice choice = {}) {
  Request request = foreign({says(Role::kUser, "go")});
  request.tools = {{.name = "f"}};
  request.thinking = std::move(wish);
  request.output_tokens_max = max;
  request.tool_choice = std::move(choice);
  request.temperature = 0.3;
  request.top_p = 0.5;
  request.top_k = 3;
  return write(request, model);
}

TEST(MessagesRequestOut, EffortBecomesABudgetThatLeavesRoomForTheAnswer) {
  const ThinkingWish high{.kind = ThinkingWish::Kind::kEffort, .effort = "high"};
  const Outcome free = write_thinking(high, kOldModel, std::nullopt);
  EXPECT_EQ(free.body["thinking"], json(R"({"type":"enabled","budget_tokens":16384})"));
  EXPECT_THAT(free.omitted, UnorderedElementsAre("temperature", "top_k", "top_p"));
  EXPECT_EQ(write_thinking(high, kOldModel, 4096).body["thinking"]["budget_tokens"], 3072);
  EXPECT_EQ(write_thinking(high, kOldModel, 4096).body["max_tokens"], 4096);
  const Outcome tight = write_thinking(high, kOldModel, 2000);
  EXPECT_FALSE(tight.body.contains("thinking"));
  EXPECT_THAT(tight.omitted, testing::Contains("thinking"));
  EXPECT_EQ(tight.body["temperature"], 0.3);
}

TEST(MessagesRequestOut, NewerModelsAreToldTheEffort) {
  using Kind = ThinkingWish::Kind;
  const Outcome outcome = write_thinking(
      {.kind = Kind::kEffort, .effort = "minimal", .summary = "auto"}, kNewModel, std::nullopt);
  EXPECT_EQ(outcome.body["thinking"], json(R"({"type":"adaptive","display":"summarized"})"));
  EXPECT_EQ(outcome.body["output_config"]["effort"], "low");
  EXPECT_EQ(write_thinking({.kind = Kind::kBudget, .budget_tokens = 30000}, kNewModel, std::nullopt)
                .body["output_config"]["effort"],
            "xhigh");
  EXPECT_EQ(write_thinking({.kind = Kind::kEffort, .effort = "none"}, kNewModel, std::nullopt)
                .body["thinking"],
            json(R"({"type":"disabled"})"));
}

TEST(MessagesRequestOut, ThinkingIsLeftOffWhereAnthropicWouldRefuseIt) {
  const ThinkingWish wish{.kind = ThinkingWish::Kind::kEffort, .effort = "low"};
  const Outcome forced =
      write_thinking(wish, kOldModel, std::nullopt, {.kind = ToolChoice::Kind::kAny});
  EXPECT_FALSE(forced.body.contains("thinking"));
  EXPECT_THAT(forced.omitted, testing::Contains("thinking"));
  Request unthought = foreign({says(Role::kUser, "go"), calls("a"), gives("a", "A")});
  unthought.thinking = wish;
  EXPECT_THAT(write(unthought).omitted, ElementsAre("thinking"));
  EXPECT_EQ(write(unthought, kNewModel).body["thinking"]["type"], "adaptive");
}

TEST(MessagesRequestOut, SamplingFollowsTheModel) {
  Request request = foreign({says(Role::kUser, "go")});
  request.temperature = 1.7;
  request.top_p = 0.9;
  EXPECT_EQ(write(request).body["temperature"], 1.0);
  EXPECT_THAT(write(request).omitted, ElementsAre("top_p"));
  EXPECT_THAT(write(request, "claude-opus-4-7").omitted,
              UnorderedElementsAre("temperature", "top_p"));
}

TEST(MessagesRequestOut, FormatsAreAskedForInTheFieldOrInWords) {
  Request request = foreign({says(Role::kUser, "go")});
  request.format = {
      .kind = OutputFormat::Kind::kSchema, .name = "n", .schema = R"({"type":"object"})"};
  const Outcome field = write(request);
  EXPECT_EQ(field.body["output_config"]["format"],
            json(R"({"type":"json_schema","schema":{"type":"object"}})"));
  EXPECT_THAT(field.omitted, ElementsAre());
  const Outcome words = write(request, "claude-sonnet-4-20250514");
  EXPECT_THAT(std::string(words.body["system"]), HasSubstr(R"({"type":"object"})"));
  EXPECT_THAT(words.omitted, ElementsAre("response_format"));
  request.format = {.kind = OutputFormat::Kind::kJson};
  EXPECT_THAT(std::string(write(request).body["system"]), HasSubstr("JSON"));
  // Chat's schema may be missing.
  request.format = {.kind = OutputFormat::Kind::kSchema, .name = "n"};
  for (const char* model : {kOldModel, "claude-sonnet-4-20250514"}) {
    const Outcome without = write(request, model);
    EXPECT_THAT(std::string(without.body["system"]), HasSubstr("JSON object"));
    EXPECT_FALSE(without.body.contains("output_config"));
  }
}

TEST(MessagesRequestOut, AModelsNameSaysWhatItUnderstands) {
  using messages::traits_of;
  for (const char* name : {"claude-opus-4-6", "claude-sonnet-5", "claude-mythos-preview",
                           "claude-fable-5-1", "us.anthropic.claude-opus-4-7-v1:0"})
    EXPECT_TRUE(traits_of(name).thinks_adaptively) << name;
  for (const char* name :
       {"claude-sonnet-4-5-20250929", "claude-sonnet-4-20250514", "claude-3-opus-20240229",
        "claude-3-7-sonnet@20250219", "kimi-k2", "claude-2.1"})
    EXPECT_FALSE(traits_of(name).thinks_adaptively) << name;
  EXPECT_TRUE(traits_of("claude-opus-4-1-20250805").follows_schemas);
  EXPECT_FALSE(traits_of("claude-sonnet-4-20250514").follows_schemas);
  EXPECT_FALSE(traits_of("claude-opus-5").takes_sampling);
}

}  // namespace
}  // namespace pons::models
