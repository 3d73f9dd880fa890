// The brain asks what a question came to whose answer it did not wait for.

#include <nlohmann/json.hpp>

#include "gateway_fixture.h"
#include "pons/base/json.h"

namespace pons::gateway {
namespace {

constexpr const char* kQuestion = "0123456789abcdef";
constexpr const char* kEnd = "/questions/0123456789abcdef/end";
constexpr const char* kAnswers = R"([
  {"when":{"user":"break"},"text":"one two three","chunk_bytes":4,
   "fail":{"kind":"overloaded","after":2,"message":"busy"}},
  {"text":"Hello","usage":{"input":100,"output":42}}])";

class QuestionsTest : public GatewayTest {
 protected:
  QuestionsTest() { open_script(kAnswers); }
  Answer call(const std::string& role, const char* user = "hi", const char* question = kQuestion) {
    return ask(role, "POST", "/v1/messages",
               {{"content-type", "application/json"},
                {"x-pons-tell-cost", "1"},
                {"x-pons-question", question}},
               std::string(R"({"model":"test","max_tokens":50,"stream":true,"messages":[)") +
                   R"({"role":"user","content":")" + user + R"("}]})");
  }
  Json use(const char* target = kEnd) {
    const Answer answer = ask("brain", "POST", target);
    EXPECT_EQ(answer.status, 200) << answer.text;
    return parse_json(answer.text).value_or(Json::object());
  }
};

TEST_F(QuestionsTest, AllThatItsCallsCameToIsToldAndNothingMoreIsBegun) {
  EXPECT_EQ(call("brain").status, 200);
  EXPECT_EQ(call("brain", "hi", "fedcba9876543210").status, 200);
  const Json used = use();
  EXPECT_EQ(used.at("input"), 100);
  EXPECT_EQ(used.at("output"), 42);
  EXPECT_EQ(used.at("cost_nano_usd"), 142);
  EXPECT_EQ(used.at("calls"), 1);
  EXPECT_NE(call("brain").status, 200) << "what comes late asks nobody";
  EXPECT_EQ(use(), used);
}

TEST_F(QuestionsTest, ACallThatBrokeOffIsPartOfIt) {
  (void)call("brain", "break");
  const Json used = use();
  EXPECT_GT(used.at("output"), 0);
  EXPECT_GT(used.at("cost_nano_usd"), 0);
}

TEST_F(QuestionsTest, ItIsTheBrainsAlone) {
  EXPECT_EQ(call("front").status, 200);
  EXPECT_EQ(ask("front", "POST", kEnd).status, 403);
  EXPECT_EQ(use().at("calls"), 0) << "what others call a question is none";
  EXPECT_EQ(ask("brain", "POST", "/questions/none/end").status, 400);
  EXPECT_EQ(use("/questions/00000000000000000000/end").at("calls"), 0);
}

}  // namespace
}  // namespace pons::gateway
