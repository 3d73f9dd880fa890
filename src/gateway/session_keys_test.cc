// Keys for harnesses: good in one sandbox, for one model, and for so much.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "gateway_fixture.h"
#include "pons/base/json.h"

namespace pons::gateway {
namespace {

using ::testing::HasSubstr;

class SessionKeysTest : public GatewayTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(open_script(R"([{"text":"Hello","usage":{"input":100,"output":42}}])"));
  }
  Answer open_key(Json more = Json::object(), const std::string& role = "brain") {
    Json order = {{"project", "default"},
                  {"agent", "coder"},
                  {"session", "ses_1"},
                  {"sandbox", "hx-1"},
                  {"models", {"test"}}};
    order.update(more);
    return ask(role, "POST", "/session-keys", {}, dump_json(order));
  }
  Json opened(Json more = Json::object()) {
    const Answer answer = open_key(std::move(more));
    EXPECT_EQ(answer.status, 200) << answer.text;
    return *parse_json(answer.text);
  }
  Answer call(const Json& key, const std::string& sandbox, const std::string& model = "test",
              const std::string& role = "egress") {
    http::OwnedFields fields = {{"content-type", "application/json"},
                                {"authorization", "Bearer " + key["key"].get<std::string>()}};
    if (!sandbox.empty()) fields.emplace_back("x-pons-sandbox", sandbox);
    return ask(role, "POST", "/v1/chat/completions", fields,
               R"({"model":")" + model +
                   R"(","max_tokens":50,"messages":[{"role":"user","content":"hi"}]})");
  }
};

TEST_F(SessionKeysTest, AKeyIsGoodInItsSandboxAndNowhereElse) {
  const Json key = opened();
  EXPECT_EQ(call(key, "hx-1").status, 200);
  for (const char* other : {"hx-2", "hx-11", "x-1", ""}) EXPECT_EQ(call(key, other).status, 401);
}

TEST_F(SessionKeysTest, ASandboxThatSaysItIsAnotherIsNotBelievedElsewhere) {
  const Json key = opened();
  // Front has clients of its own, who may send any field.
  const Answer answer =
      ask("front", "POST", "/v1/chat/completions",
          {{"x-pons-key", key["id"].get<std::string>()}, {"x-pons-sandbox", "hx-1"}},
          R"({"model":"test","messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(answer.status, 401);
}

TEST_F(SessionKeysTest, ItIsForItsModelAlsoUnderTheNameThatOnlyHarnessesKnow) {
  const Json key = opened();
  EXPECT_EQ(call(key, "hx-1", "pons/test").status, 200);
  EXPECT_NE(call(key, "hx-1", "stage/m").status, 200);
}

TEST_F(SessionKeysTest, OnlyTheBrainMakesThem) {
  for (const char* role : {"front", "operator", "egress"})
    EXPECT_EQ(open_key(Json::object(), role).status, 403) << role;
}

TEST_F(SessionKeysTest, WhatWasUsedIsCounted) {
  const Json key = opened();
  const std::string place = "/session-keys/" + key["id"].get<std::string>();
  EXPECT_EQ(call(key, "hx-1").status, 200);
  const Json used = *parse_json(ask("brain", "GET", place).text);
  EXPECT_EQ(used["input"], 100);
  EXPECT_EQ(used["output"], 42);
  EXPECT_EQ(used["cost_nano_usd"], 142);
  EXPECT_EQ(used["requests"], 1);
}

TEST_F(SessionKeysTest, OneThatIsClosedIsGoodForNothing) {
  const Json key = opened();
  EXPECT_EQ(ask("brain", "DELETE", "/session-keys/" + key["id"].get<std::string>()).status, 200);
  EXPECT_EQ(call(key, "hx-1").status, 401);
}

TEST_F(SessionKeysTest, ThereIsOneAtATime) {
  const Json first = opened();
  const Json second = opened();
  EXPECT_EQ(call(first, "hx-1").status, 401);
  EXPECT_EQ(call(second, "hx-1").status, 200);
}

// Clients try again after 429, for minutes; what is spent stays spent.
TEST_F(SessionKeysTest, ASpentBudgetIsRefusedInAWayThatNobodyTriesAgain) {
  const Json key = opened({{"tokens", 10}});
  const Answer answer = call(key, "hx-1");
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.text, HasSubstr("budget"));
}

TEST_F(SessionKeysTest, OrdersThatSayTooLittleOrTooMuchAreRefused) {
  for (const Json& wrong :
       {Json{{"models", Json::array()}}, Json{{"models", "test"}}, Json{{"sandbox", ""}},
        Json{{"session", std::string(200, 'x')}}, Json{{"tokens", -1}}, Json{{"more", 1}}})
    EXPECT_EQ(open_key(wrong).status, 400) << dump_json(wrong);
  EXPECT_EQ(ask("brain", "GET", "/session-keys/mk_none").status, 403);
}

}  // namespace
}  // namespace pons::gateway
