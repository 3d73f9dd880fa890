// What is told about usage: warnings, and the time of sandboxes.

#include <nlohmann/json.hpp>

#include "gateway_fixture.h"
#include "pons/base/json.h"

namespace pons::gateway {
namespace {

class UsageTest : public GatewayTest {
 protected:
  UsageTest() { open_script(R"([{"text":"Hello","usage":{"input":50,"output":35}}])"); }

  Json tell(const std::string& role, const std::string& target) {
    const Answer answer = ask(role, "GET", target);
    EXPECT_EQ(answer.status, 200) << answer.text;
    return parse_json(answer.text).value_or(Json());
  }
  Answer charge(const std::string& role, const std::string& sandboxes) {
    return ask(role, "POST", "/sandbox-time", {}, sandboxes);
  }
};

TEST_F(UsageTest, ALimitThatIsNearlyUsedUpIsTold) {
  const std::string root = run(book_->keys().ensure_root("default"))->id;
  EXPECT_EQ(tell("front", "/x/usage")["warnings"], Json::array());
  ASSERT_TRUE(run(book_->keys().update(
      root,
      {.limits = std::vector<budget::Limit>{
           {.what = budget::What::kTokens, .amount = 100, .window = budget::Window::kTotal}}})));
  ASSERT_EQ(ask("front", "POST", "/v1/messages", {},
                R"({"model":"test","max_tokens":5,"messages":[{"role":"user","content":"hi"}]})")
                .status,
            200);
  const Json expected = Json::array(
      {{{"what", "tokens"}, {"amount", 100}, {"window", "total"}, {"key", root}, {"used", 85}}});
  EXPECT_EQ(tell("front", "/x/usage")["warnings"], expected);
  EXPECT_EQ(tell("operator", "/model-usage")["warnings"], expected);
  EXPECT_EQ(tell("operator", "/model-keys")["keys"][0]["warnings"], expected);
  EXPECT_EQ(tell("operator", "/model-usage?project=other")["warnings"], Json::array());
}

TEST_F(UsageTest, TimeOfSandboxesIsUsageOfTheirProjectOnce) {
  const char* const kEnded = R"([{"id":"sbx_a","project":"default","seconds":61},)"
                             R"({"id":"sbx_b","project":"other","seconds":5}])";
  EXPECT_EQ(charge("brain", kEnded).text, "{\"charged\":2}\n");
  EXPECT_EQ(charge("brain", kEnded).text, "{\"charged\":0}\n");
  const Json rows = tell("operator", "/model-usage")["usage"];
  ASSERT_EQ(rows.size(), 1U) << rows;
  EXPECT_EQ(rows[0]["model"], "sandbox");
  EXPECT_EQ(rows[0]["sandbox_seconds"], 61);
  EXPECT_EQ(tell("operator", "/model-usage?project=other")["usage"][0]["sandbox_seconds"], 5);
}

TEST_F(UsageTest, OnlyTheBrainTellsOfSandboxesAndInThisShape) {
  EXPECT_EQ(charge("front", R"([{"id":"a","project":"default","seconds":1}])").status, 403);
  for (const char* wrong : {"", "{}", R"([{"id":"a","project":"default"}])",
                            R"([{"id":"a","project":"default","seconds":0}])",
                            R"([{"id":"","project":"default","seconds":1}])",
                            R"([{"id":"a","project":"a/b","seconds":1}])"})
    EXPECT_EQ(charge("brain", wrong).status, 400) << wrong;
  EXPECT_EQ(tell("operator", "/model-usage")["usage"], Json::array());
}

}  // namespace
}  // namespace pons::gateway
