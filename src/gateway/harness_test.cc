// Requests in the shapes of real harnesses, over providers of their own protocol and of others.

#include "fake_provider.h"
#include "gateway_fixture.h"
#include "harness_shapes.h"

namespace pons::gateway {
namespace {

struct Shape {
  const char* name;
  const char* target;
  const char* protocol;  // as pons.yaml calls it
  const char* body;
};

constexpr Shape kShapes[] = {
    {"ClaudeCode", "/v1/messages?beta=true", "messages", shapes::kClaudeCode},
    {"ClaudeCodeWithABudget", "/v1/messages?beta=true", "messages", shapes::kClaudeCodeBudget},
    {"Codex", "/v1/responses", "responses", shapes::kCodex},
    {"CodexWithPatches", "/v1/responses", "responses", shapes::kCodexPatch},
    {"PiOverChat", "/v1/chat/completions", "chat", shapes::kPiChat},
    {"PiOverMessages", "/v1/messages", "messages", shapes::kPiMessages},
    {"PiOverResponses", "/v1/responses", "responses", shapes::kPiResponses},
    {"OpenCodeOverChat", "/v1/chat/completions", "chat", shapes::kOpenCodeChat},
    {"OpenCodeOverMessages", "/v1/messages", "messages", shapes::kOpenCodeMessages},
    {"OpenCodeOverResponses", "/v1/responses", "responses", shapes::kOpenCodeResponses},
    {"Qwen", "/v1/chat/completions", "chat", shapes::kQwenChat}};

class HarnessTest : public GatewayTest, public ::testing::WithParamInterface<Shape> {
 protected:
  void open_over(const std::string& protocol) {
    open({{"far", provider_.document(protocol)}}, {{"test", R"({"try":["far/m"]})"}});
  }
  Answer send() {
    return ask("front", "POST", GetParam().target,
               {{"content-type", "application/json"},
                {"anthropic-beta", "claude-code-20250219,made-up-2099-01-01"}},
               GetParam().body);
  }
  FakeProvider provider_{*loop_};
};

TEST_P(HarnessTest, IsTakenByAProviderOfItsOwnProtocolByteForByte) {
  ASSERT_NO_FATAL_FAILURE(open_over(GetParam().protocol));
  const Answer answer = send();
  EXPECT_EQ(answer.status, 200) << answer.text;
  EXPECT_NE(answer.text.find("ok"), std::string::npos);
  ASSERT_EQ(provider_.asked.size(), 1U);
  std::string expected = GetParam().body;
  expected.replace(expected.find("\"test\""), 6, "\"m\"");
  EXPECT_EQ(provider_.asked[0].body, expected);
  EXPECT_EQ(provider_.asked[0].field("anthropic-beta"), "claude-code-20250219,made-up-2099-01-01");
}

TEST_P(HarnessTest, IsTakenByProvidersOfOtherProtocols) {
  for (const char* protocol : {"messages", "chat", "responses"}) {
    if (std::string_view(protocol) == GetParam().protocol) continue;
    close();
    ASSERT_NO_FATAL_FAILURE(open_over(protocol));
    const Answer answer = send();
    EXPECT_EQ(answer.status, 200) << protocol << ": " << answer.text;
    EXPECT_NE(answer.text.find("ok"), std::string::npos) << protocol << ": " << answer.text;
  }
  EXPECT_EQ(provider_.asked.size(), 2U);
}

class SearchTest : public HarnessTest {};

TEST_P(SearchTest, ASearchThatOnlyItsServiceRunsIsLeftOutAndNamedUnlessTheAnswerMustComeFromIt) {
  for (const char* protocol : {"messages", "chat"}) {
    close();
    ASSERT_NO_FATAL_FAILURE(open_over(protocol));
    const Answer without = send();
    EXPECT_EQ(without.status, 200) << protocol << ": " << without.text;
    EXPECT_NE(without.field("x-pons-omitted").find("web_search"), std::string::npos)
        << without.field("x-pons-omitted");
    EXPECT_EQ(provider_.asked.back().body.find("web_search"), std::string::npos);
    std::string forced = GetParam().body;
    forced.replace(forced.find("\"auto\""), 6, R"({"type":"web_search"})");
    const Answer refused = ask("front", "POST", GetParam().target, {}, forced);
    EXPECT_EQ(refused.status, 400) << protocol;
    EXPECT_NE(refused.text.find("web_search"), std::string::npos) << refused.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Codex, SearchTest, ::testing::Values(kShapes[2]),
                         [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Shapes, HarnessTest, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace pons::gateway
