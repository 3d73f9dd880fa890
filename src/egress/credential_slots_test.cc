#include <fmt/format.h>

#include "boundary_fixture.h"
#include "pons/base/text.h"

namespace pons::egress {
namespace {

// What may stand in a field beside a stub, and in fields where credentials travel.
class CredentialSlotTest : public BoundaryTest {
 protected:
  static std::string get(std::string_view fields, std::string_view host = "api.test.example",
                         std::string_view target = "/") {
    return fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n{}", target, host, fields);
  }
  std::string code(std::string_view fields) { return BoundaryTest::code(get(fields)); }
  static std::string basic(std::string_view pair) {
    return "Authorization: Basic " + base64_encode(pair);
  }
};

TEST_F(CredentialSlotTest, NoOtherCredentialStandsBesideAStubInBasic) {
  for (const char* format : {"format=Basic *:{}", "format=Basic {}:*"}) {
    set("TOKEN", kSecret, {fmt::format("host=api.test.example,{}", format)});
    set("OTHER", kOtherSecret, {"host=else.test.example"});
    const bool is_user = std::string_view(format).ends_with('*');
    const auto pair = [&](const std::string& other) {
      return basic(is_user ? stub() + ":" + other : other + ":" + stub());
    };
    EXPECT_EQ(code(pair("")), "") << format;
    EXPECT_EQ(code(pair("ghp_AttackersOwn0123456789abcdefghijklmn")), "undeclared_position");
    EXPECT_NE(code(pair(stub("OTHER"))), "") << format;
    EXPECT_NE(code(pair(std::string(kOtherSecret))), "") << format;
    EXPECT_NE(code(pair(std::string(kSecret))), "") << format;
  }
}

// A token's shape is known of few; what is looked for is looked for in every user name.
TEST_F(CredentialSlotTest, TheUserOfBasicIsLookedThrough) {
  constexpr std::string_view kPlain = "q7Rk2Xc9Vb4Nm1Jh8Gf5Ds3Aw6Ty0UiPeLo";
  set("TOKEN", kSecret, {"host=api.test.example,format=Basic *:{}"});
  set("OTHER", kPlain, {"host=else.test.example"});
  EXPECT_EQ(code(basic("somebody:" + stub())), "");
  EXPECT_EQ(code(basic(stub("OTHER") + ":" + stub())), "credential_endpoint_mismatch");
  EXPECT_EQ(code(basic(fmt::format("{}:{}", kPlain, stub()))), "secret_in_request");
}

TEST_F(CredentialSlotTest, WhereAnyHeaderWillDoASlotHoldsNothingElse) {
  set("TOKEN", kSecret, {"host=api.test.example,header=*"});
  set("OTHER", kOtherSecret, {"host=else.test.example"});
  const std::string own = stub();
  for (const std::string& fine :
       {"Authorization: Bearer " + own, "Authorization: Token token=\"" + own + "\"",
        "X-Api-Key: " + own, "Cookie: session=" + own, "X-Foo: mine; theirs " + own,
        "Authorization: Zoho-oauthtoken " + own})
    EXPECT_EQ(code(fine), "") << fine;
  for (const std::string& foreign :
       {"Cookie: session=attackers; x=" + own, "Cookie: x=" + own + "; session=attackers",
        "Authorization: Bearer attackers " + own, "X-Api-Key: attackers," + own,
        "Authorization: Zx81mQpL0vTr5Ke9WbYs7NcGd2HjUa " + own})
    EXPECT_EQ(code(foreign), "undeclared_position") << foreign;
  EXPECT_EQ(code(fmt::format("X-Foo: {} {}", kOtherSecret, own)), "secret_in_request");
  EXPECT_EQ(code(fmt::format("X-Foo: {} {}", stub("OTHER"), own)), "credential_endpoint_mismatch");
  EXPECT_EQ(code(fmt::format("{}: {}", stub("OTHER"), own)), "credential_endpoint_mismatch");
}

TEST_F(CredentialSlotTest, AnUnderscoreHidesNoField) {
  set("TOKEN", kSecret, {"host=api.test.example,header=X-Own-Key,format={}"});
  for (const char* field : {"Private_Token: mine", "X_Api_Key: mine", "x_own_key: mine",
                            "X_Own-Key: mine", "Sec_WebSocket_Protocol: mine9012345678901234567"})
    EXPECT_EQ(code(field), "foreign_credential") << field;
  EXPECT_EQ(code("X-Own-Key: " + stub() + "\r\nX_Own_Key: mine"), "duplicate_credential");
  // What would be dropped with hyphens is neither dropped nor passed on.
  for (const char* field : {"X_HTTP_Method_Override: DELETE", "X_Forwarded_For: 1.2.3.4",
                            "Content_Length: 3", "Transfer_Encoding: chunked", "X_Original-URL: /"})
    EXPECT_EQ(code(field), "malformed_request") << field;
  EXPECT_EQ(code("X_Mine: 1"), "");
}

// ---- hosts that nothing is bound to

class RequiredStubTest : public CredentialSlotTest {
 protected:
  RequiredStubTest() {
    adopt(R"({"mode":"list","credentials":["TOKEN"],"allow":[
        {"host":"api.test.example","require_stub":true},{"host":"else.test.example"}]})");
  }
};

TEST_F(RequiredStubTest, AKeyFromElsewhereIsRefusedWhereNothingIsBound) {
  EXPECT_TRUE(sandbox_->policy->needs_inspection(origin().host, 443));
  EXPECT_EQ(code("X-Plain: 1"), "");
  EXPECT_EQ(code("Authorization: Bearer attackers"), "foreign_credential");
  EXPECT_EQ(code("x_api_key: attackers"), "foreign_credential");
  EXPECT_EQ(BoundaryTest::code(get("X: 1", "api.test.example", "/?access_token=attackers")),
            "foreign_credential");
  EXPECT_FALSE(judge(get("X: 1\r\nContent-Length: 2"))->credential_names.empty());
  EXPECT_EQ(BoundaryTest::code(get("Authorization: Bearer mine", "else.test.example"),
                               origin("else.test.example")),
            "");
}

TEST_F(RequiredStubTest, ABindingWorksAsEverywhere) {
  set("TOKEN", kSecret, {"host=api.test.example"});
  EXPECT_EQ(code("Authorization: Bearer " + stub()), "");
}

TEST_F(RequiredStubTest, WhatRulesSetStandsInPlaceOfWhatTheSandboxWrote) {
  adopt(R"({"mode":"list","allow":[{"host":"api.test.example","require_stub":true}],
      "fields":[{"host":"api.test.example","set":{"Authorization":"Bearer of-the-rules"}}]})");
  const auto judged = judge(get("Authorization: Bearer sdk-wants-one"));
  ASSERT_TRUE(judged) << judged.error().code;
  ASSERT_EQ(judged->request.fields.size(), 1U);
  EXPECT_EQ(judged->request.fields.back().second, "Bearer of-the-rules");
}

TEST_F(RequiredStubTest, ModelsAndChatsAreReachedWithOurCredentialsOnly) {
  adopt(R"({"mode":"list","services":["openai","anthropic","slack"]})");
  for (const char* host : {"api.openai.com", "api.anthropic.com", "slack.com"})
    EXPECT_TRUE(sandbox_->policy->requires_stubs(*parse_destination(host), 443)) << host;
  EXPECT_EQ(
      BoundaryTest::code(get("Authorization: Bearer sk-attackers", "api.openai.com", "/v1/models"),
                         origin("api.openai.com")),
      "foreign_credential");
  EXPECT_FALSE(Policy::compile(
      R"({"mode":"list","allow":[{"host":"a.example","tcp":true,"require_stub":true}]})", 1, {}));
}

}  // namespace
}  // namespace pons::egress
