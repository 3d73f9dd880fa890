#include "pons/models/tool_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pons::models {
namespace {

Request with_tool(std::string name, std::string space = "") {
  return {.protocol = Protocol::kResponses,
          .messages = {{Role::kAssistant,
                        {{ToolCallPart{.id = "c", .name = name, .input = "{}", .space = space}}}}},
          .tools = {{.name = name, .space = space, .space_description = space}},
          .tool_choice = {.kind = ToolChoice::Kind::kOne, .name = name}};
}
const ToolCallPart& call_of(const Request& request) {
  return std::get<ToolCallPart>(request.messages[0].parts[0].content);
}
ToolCallPart restored(const ToolNames& names, ToolCallPart call) {
  Part part{std::move(call)};
  names.restore(part);
  return std::get<ToolCallPart>(part.content);
}

TEST(ToolNames, ALegalNameStays) {
  for (const Protocol target : {Protocol::kMessages, Protocol::kChat, Protocol::kResponses}) {
    Request request = with_tool("get_weather-2");
    const Request before = request;
    const ToolNames names(request, target);
    EXPECT_EQ(request, before);
    EXPECT_EQ(restored(names, {.id = "x", .name = "get_weather-2"}).name, "get_weather-2");
  }
}

TEST(ToolNames, WhatIsIllegalIsRenamedEverywhereAndRestored) {
  const std::string longest(65, 'n');
  for (const std::string& name :
       {std::string("mcp.server/read file"), std::string("größe"), longest, std::string()}) {
    Request request = with_tool(name);
    const ToolNames names(request, Protocol::kChat);
    const std::string legal = request.tools[0].name;
    EXPECT_THAT(legal, testing::MatchesRegex("[A-Za-z0-9_-]+")) << name;
    EXPECT_LE(legal.size(), 64U);
    EXPECT_EQ(call_of(request).name, legal);
    EXPECT_EQ(request.tool_choice.name, legal);
    EXPECT_EQ(restored(names, {.id = "x", .name = legal}).name, name);
  }
}

TEST(ToolNames, MessagesTakesLongerNames) {
  Request request = with_tool(std::string(128, 'n'));
  const ToolNames names(request, Protocol::kMessages);
  EXPECT_EQ(request.tools[0].name, std::string(128, 'n'));
  Request longer = with_tool(std::string(129, 'n'));
  const ToolNames renamed(longer, Protocol::kMessages);
  EXPECT_LE(longer.tools[0].name.size(), 128U);
}

TEST(ToolNames, ANamespaceBecomesPartOfTheNameAndComesBack) {
  Request request = with_tool("exec", "mcp__sandbox");
  const ToolNames names(request, Protocol::kMessages);
  EXPECT_THAT(request.tools[0].name, testing::StartsWith("mcp__sandbox__exec_"));
  EXPECT_EQ(request.tools[0].space, "");
  EXPECT_EQ(call_of(request).space, "");
  const ToolCallPart call = restored(names, {.id = "x", .name = request.tools[0].name});
  EXPECT_EQ(call.name, "exec");
  EXPECT_EQ(call.space, "mcp__sandbox");
}

TEST(ToolNames, AProviderOfTheSameProtocolKeepsNamespaces) {
  Request request = with_tool("exec", "mcp__sandbox");
  const Request before = request;
  const ToolNames names(request, Protocol::kResponses);
  EXPECT_EQ(request, before);
}

TEST(ToolNames, TheSameNameInTwoNamespacesIsTwoTools) {
  for (const Protocol target : {Protocol::kMessages, Protocol::kResponses}) {
    Request request = with_tool("exec", "one");
    request.tools.push_back({.name = "exec", .space = "two"});
    const ToolNames names(request, target);
    for (const Tool& tool : request.tools) {
      const ToolCallPart call =
          restored(names, {.id = "x", .name = tool.name, .space = tool.space});
      EXPECT_EQ(call.name, "exec");
      EXPECT_EQ(call.space, &tool == &request.tools[0] ? "one" : "two");
    }
  }
}

TEST(ToolNames, TheNameIsTheSameInEveryTurn) {
  Request first = with_tool("a.b");
  Request later = with_tool("a.b");
  later.tools.insert(later.tools.begin(), {.name = "a_b"});
  later.tools.push_back({.name = "a/b"});
  const ToolNames names(first, Protocol::kChat);
  const ToolNames more(later, Protocol::kChat);
  EXPECT_EQ(first.tools[0].name, later.tools[1].name);
  EXPECT_NE(later.tools[1].name, later.tools[2].name);
}

TEST(ToolNames, AClientCannotTakeTheNameThatIsMadeForAnother) {
  Request probe = with_tool("a.b");
  const ToolNames probing(probe, Protocol::kChat);
  const std::string made = probe.tools[0].name;
  Request request = with_tool("a.b");
  request.tools.push_back({.name = made});
  const ToolNames names(request, Protocol::kChat);
  EXPECT_NE(request.tools[0].name, made);
  EXPECT_EQ(request.tools[1].name, made);
  EXPECT_EQ(restored(names, {.id = "x", .name = made}).name, made);
  EXPECT_EQ(restored(names, {.id = "x", .name = request.tools[0].name}).name, "a.b");
}

TEST(ToolNames, ACallOfTheHistoryWhoseToolIsGoneIsRenamedToo) {
  Request request = with_tool("old.tool");
  request.tools.clear();
  const ToolNames names(request, Protocol::kChat);
  EXPECT_THAT(call_of(request).name, testing::StartsWith("old_tool_"));
}

TEST(ToolNames, AWholeCallOfAFreeFormToolIsPlainTextAgain) {
  Request request = with_tool("apply.patch");
  request.tools[0].kind = Tool::Kind::kFreeForm;
  const ToolNames names(request, Protocol::kMessages);
  const std::string legal = request.tools[0].name;
  const ToolCallPart whole =
      restored(names, {.id = "x", .name = legal, .input = R"({"input":"a\nb"})"});
  EXPECT_TRUE(whole.free_form);
  EXPECT_EQ(whole.input, "a\nb");
  EXPECT_EQ(whole.name, "apply.patch");
  // Its input comes in pieces of JSON, and is not plain before its end.
  EXPECT_FALSE(restored(names, {.id = "x", .name = legal}).free_form);
  EXPECT_FALSE(restored(names, {.id = "x", .name = legal, .input = "{broken"}).free_form);
}

TEST(ToolNames, WhatNobodyNamedIsLeftAlone) {
  Request request = with_tool("a.b");
  const ToolNames names(request, Protocol::kChat);
  EXPECT_EQ(restored(names, {.id = "x", .name = "invented"}).name, "invented");
  Part text{TextPart{"a_b"}};
  names.restore(text);
  EXPECT_EQ(std::get<TextPart>(text.content).text, "a_b");
}

}  // namespace
}  // namespace pons::models
