#include "body_swap.h"

#include <fmt/format.h>

#include "pons/base/text.h"
#include "raw_relay_fixture.h"

namespace pons::egress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kForm = "application/x-www-form-urlencoded";
constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

class BodySwapTest : public RawRelayTest {
 protected:
  BodySwapTest() { bind("body=secret"); }

  void bind(std::string_view place) {
    set("TOKEN", kSecret, {fmt::format("host=api.test.example,{}", place)});
  }
  static std::string post(std::string_view type, std::string_view body,
                          std::string_view more = "") {
    return fmt::format(
        "POST /token HTTP/1.1\r\nHost: api.test.example\r\nConnection: close\r\n"
        "Content-Type: {}\r\n{}Content-Length: {}\r\n\r\n{}",
        type, more, body.size(), body);
  }
  // What the host got as the body; the code of the refusal where it got nothing.
  std::string outcome(std::string_view type, std::string_view body, std::string_view more = "",
                      std::string_view answer = kOk) {
    answer_ = converse(post(type, body, more), origin(), std::string(answer));
    if (!host_got_.empty()) return host_got_.substr(host_got_.find("\r\n\r\n") + 4);
    const std::size_t code = answer_.find("X-Pons-Refused: ") + 16;
    return answer_.substr(code, answer_.find('\r', code) - code);
  }
  std::string json(std::string_view value) {
    return fmt::format(R"({{"a":1,"secret":"{}"}})", value);
  }
  std::string answer_;
};

TEST_F(BodySwapTest, TheStubBecomesTheSecretInTheDeclaredMember) {
  EXPECT_EQ(outcome(kJson, json(stub())), json(kSecret));
  EXPECT_THAT(host_got_, HasSubstr(fmt::format("Content-Length: {}\r\n", json(kSecret).size())));
  EXPECT_THAT(logged(), AllOf(HasSubstr(R"("verdict":"swap")"), HasSubstr("TOKEN")));
  EXPECT_EQ(outcome("application/json; charset=UTF-8", json(stub())), json(kSecret));
}

TEST_F(BodySwapTest, TheStubBecomesTheSecretInTheDeclaredField) {
  EXPECT_EQ(outcome(kForm, "grant=x&secret=" + stub() + "&b=%20"),
            fmt::format("grant=x&secret={}&b=%20", kSecret));
}

TEST_F(BodySwapTest, AnswersAreScrubbed) {
  const std::string echo =
      fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", kSecret.size(), kSecret);
  EXPECT_EQ(outcome(kJson, json(stub()), "", echo), json(kSecret));
  EXPECT_THAT(answer_, AllOf(HasSubstr(stub()), Not(HasSubstr(std::string(kSecret)))));
}

TEST_F(BodySwapTest, AnywhereElseInTheBodyItIsRefused) {
  for (const std::string& body :
       {fmt::format(R"({{"other":"{}"}})", stub()),
        fmt::format(R"({{"a":{{"secret":"{}"}}}})", stub()), fmt::format(R"({{"{}":1}})", stub()),
        fmt::format(R"(["{}"])", stub()), fmt::format(R"({{"secret":"x {}"}})", stub()),
        fmt::format(R"({{"secret":"{0}","text":"{0}"}})", stub()),
        fmt::format(R"({{"secret":"{0}","text":"see {0}"}})", stub()),
        fmt::format(R"({{"secret":"{}","text":"{}"}})", stub(), base64_encode(stub())),
        fmt::format(R"({{"secret":"{}")", stub())})
    EXPECT_EQ(outcome(kJson, body), "undeclared_position") << body;
  for (const std::string& body :
       {"other=" + stub(), stub() + "=1", stub(), "secret=x" + stub(),
        "secret=" + stub() + "&secret=" + stub(), "secret=" + stub() + "&text=" + stub()})
    EXPECT_EQ(outcome(kForm, body), "undeclared_position") << body;
  EXPECT_THAT(logged(), Not(HasSubstr(stub())));
}

// A value that the parser reads as the stub, while the stub itself stands in a name.
TEST_F(BodySwapTest, AnotherSpellingDoesNotMoveTheSecretElsewhere) {
  const std::string spelled = fmt::format("\\u00{:02x}{}", stub()[0], stub().substr(1));
  EXPECT_EQ(outcome(kJson, fmt::format(R"({{"{}":1,"secret":"{}"}})", stub(), spelled)),
            "undeclared_position");
  EXPECT_EQ(outcome(kJson, json(spelled)), "undeclared_position");
  EXPECT_EQ(outcome(kJson, fmt::format(R"({{"secret":"{0}","secret":"{0}"}})", stub())),
            "undeclared_position");
}

TEST_F(BodySwapTest, OtherFormsAndCodingsAreRefused) {
  EXPECT_EQ(outcome("text/plain", json(stub())), "undeclared_position");
  EXPECT_EQ(outcome("multipart/form-data; boundary=x", json(stub())), "undeclared_position");
  EXPECT_EQ(outcome("application/json; charset=utf-16", json(stub())), "undeclared_position");
  EXPECT_EQ(outcome(kJson, json(stub()), "Content-Type: text/plain\r\n"), "undeclared_position");
  EXPECT_EQ(outcome(kJson, json(stub()), "Content-Encoding: gzip\r\n"), "undeclared_position");
}

TEST_F(BodySwapTest, ABodyThatIsTooLongGetsNoSecret) {
  const std::string padding(70'000, 'x');
  answer_ = converse(post(kJson, fmt::format(R"({{"secret":"{}","a":"{}"}})", stub(), padding)),
                     origin(), std::string(kOk));
  EXPECT_THAT(host_got_, AllOf(Not(HasSubstr(stub())), Not(HasSubstr(std::string(kSecret)))));
  EXPECT_THAT(answer_, HasSubstr("undeclared_position"));
  EXPECT_EQ(outcome(kJson, fmt::format(R"({{"a":"{}"}})", padding)).size(), padding.size() + 8);
}

TEST_F(BodySwapTest, TheDeclaredPlaceTakesNobodyElsesCredential) {
  EXPECT_EQ(outcome(kJson, json("mine")), "foreign_credential");
  EXPECT_EQ(outcome(kJson, R"({"SECRET":"mine"})"), "foreign_credential");
  EXPECT_EQ(outcome(kJson, fmt::format(R"({{"secret":"{}","Secret":"mine"}})", stub())),
            "foreign_credential");
  EXPECT_EQ(outcome(kForm, "secret=mine"), "foreign_credential");
  EXPECT_EQ(outcome(kForm, "s%65cret=mine"), "foreign_credential");
  EXPECT_EQ(outcome(kForm, "secret=" + stub() + "&secret=mine"), "foreign_credential");
  EXPECT_EQ(outcome(kJson, fmt::format(R"({{"secret":"{}"}})", kSecret)), "secret_in_request");
}

TEST_F(BodySwapTest, WhatCannotBeReadAsTheHostReadsItTakesNothingEither) {
  EXPECT_EQ(outcome(kJson, R"({"secret":"mine","secret":"mine"})"), "foreign_credential");
  EXPECT_EQ(outcome(kJson,
                    R"({"secret":"mine","x":)" + std::string(40, '[') + std::string(40, ']') + "}"),
            "foreign_credential");
  EXPECT_EQ(outcome(kForm, "+secret=mine"), "foreign_credential");
}

TEST_F(BodySwapTest, RequestsWithoutTheStubPassAsTheyAre) {
  for (const char* body : {R"({"a":1})", "", "[]", "not json"})
    EXPECT_EQ(outcome(kJson, body), body);
  EXPECT_EQ(outcome(kForm, "a=b&&c"), "a=b&&c");
  EXPECT_EQ(outcome("text/plain", "secret=mine"), "secret=mine");
}

TEST_F(BodySwapTest, WithoutANameAnyWholeValueIsTaken) {
  bind("position=body");
  EXPECT_EQ(outcome(kJson, fmt::format(R"([{{"x":["{}"]}}])", stub())),
            fmt::format(R"([{{"x":["{}"]}}])", kSecret));
  EXPECT_EQ(outcome(kForm, "x=" + stub()), fmt::format("x={}", kSecret));
  EXPECT_EQ(outcome(kForm, "token=" + stub()), fmt::format("token={}", kSecret));
  EXPECT_EQ(outcome(kJson, fmt::format(R"({{"api_key":"{}"}})", stub())),
            fmt::format(R"({{"api_key":"{}"}})", kSecret));
  EXPECT_EQ(outcome(kJson, fmt::format(R"({{"api_key":"{}","token":"mine"}})", stub())),
            "foreign_credential");
  EXPECT_EQ(outcome(kJson, fmt::format(R"(["{0}","{0}"])", stub())), "undeclared_position");
}

TEST_F(BodySwapTest, OnlyWhatTheBindingCovers) {
  bind("body=secret,method=PUT");
  EXPECT_EQ(outcome(kJson, json(stub())), "undeclared_position");
  bind("body=secret,path=/other");
  EXPECT_EQ(outcome(kJson, json(stub())), "undeclared_position");
  bind("header=X-Key,format={}");
  EXPECT_EQ(outcome(kJson, json(stub())), "undeclared_position");
}

// ---- fields behind the body

class TrailerTest : public RawRelayTest {
 protected:
  TrailerTest() { set("TOKEN", kSecret, {"host=api.test.example"}); }
  std::string send(std::string_view trailers, std::size_t body_bytes = 5) {
    const std::string answer =
        converse(fmt::format("POST / HTTP/1.1\r\nHost: api.test.example\r\nConnection: close\r\n"
                             "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n{}\r\n",
                             body_bytes, std::string(body_bytes, 'x'), trailers),
                 origin(), std::string(kOk));
    return answer;
  }
};

TEST_F(TrailerTest, CleanOnesArriveBehindTheBody) {
  for (const std::size_t bytes : {5UZ, 100'000UZ}) {
    EXPECT_THAT(send("Checksum: abc\r\nX-More:  1 \r\n", bytes), HasSubstr("200 OK"));
    EXPECT_TRUE(host_got_.ends_with("\r\n0\r\nChecksum: abc\r\nX-More: 1\r\n\r\n"))
        << host_got_.substr(host_got_.size() - 80);
  }
}

TEST_F(TrailerTest, StubsAndSecretsInThemDoNotLeave) {
  for (const std::size_t bytes : {5UZ, 100'000UZ}) {
    EXPECT_THAT(send("X-A: " + stub() + "\r\n", bytes), HasSubstr("undeclared_position"));
    EXPECT_THAT(host_got_, Not(HasSubstr(stub())));
    EXPECT_THAT(send(stub() + ": 1\r\n", bytes), HasSubstr("undeclared_position"));
    EXPECT_THAT(send(fmt::format("Authorization: Bearer {}\r\n", kSecret), bytes),
                HasSubstr("secret_in_request"));
    EXPECT_THAT(host_got_, Not(HasSubstr(std::string(kSecret))));
  }
}

TEST_F(TrailerTest, NothingIsSwappedInThemAndNoOtherCredentialTaken) {
  EXPECT_THAT(send("Authorization: Bearer " + stub() + "\r\n"), HasSubstr("undeclared_position"));
  EXPECT_THAT(send("Authorization: Bearer mine\r\n"), HasSubstr("foreign_credential"));
  EXPECT_EQ(host_got_, "");
}

TEST_F(TrailerTest, WhatIsAboutTheConnectionIsLeftOut) {
  EXPECT_THAT(
      send("Connection: close\r\nX-Pons-Sandbox: other\r\nX-HTTP-Method-Override: DELETE\r\n"
           "X-Forwarded-For: 1.2.3.4\r\n"),
      HasSubstr("200 OK"));
  EXPECT_THAT(host_got_, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_TRUE(host_got_.ends_with("\r\n\r\nxxxxx")) << host_got_;
  EXPECT_THAT(send("Host: else.test.example\r\n"), HasSubstr(" 400 "));
}

// ---- stubs that pass as they are

TEST_F(RawRelayTest, AStubInTheTextToAModelHostPassesAndIsRecorded) {
  set("TOKEN", kSecret, {"host=api.test.example"});
  adopt(R"({"mode":"list","credentials":["TOKEN"],"allow":[
      {"host":"model.test.example","ports":[80],"inert_ok":true}]})");
  const std::string body = "history: " + stub();
  const std::string sent = fmt::format(
      "POST / HTTP/1.1\r\nHost: model.test.example\r\nConnection: close\r\nContent-Length: "
      "{}\r\n\r\n"
      "{}",
      body.size(), body);
  const Origin model = origin("model.test.example", 80, false);
  const auto counted = [this] {
    telemetry::Page page;
    boundary_->metrics.write(page, {});
    return page.text();
  };
  EXPECT_THAT(converse(sent, model, std::string(kOk)), HasSubstr("200 OK"));
  EXPECT_THAT(host_got_, HasSubstr(stub()));
  EXPECT_THAT(logged(), AllOf(HasSubstr(R"("verdict":"inert","code":"stub_inert")"),
                              HasSubstr(R"("credentials":["TOKEN"])"), Not(HasSubstr(stub()))));
  EXPECT_THAT(counted(), HasSubstr("{verdict=\"inert\",code=\"stub_inert\"} 1\n"));
  (void)converse("GET / HTTP/1.1\r\nHost: model.test.example\r\nConnection: close\r\nX-A: " +
                     stub() + "\r\n\r\n",
                 model, std::string(kOk));
  EXPECT_THAT(counted(), HasSubstr("{verdict=\"inert\",code=\"stub_inert\"} 2\n"));
}

TEST_F(RawRelayTest, ASecretInTheTextToAModelHostDoesNotPass) {
  set("TOKEN", kSecret, {"host=api.test.example"});
  adopt(R"({"mode":"list","credentials":["TOKEN"],"allow":[
      {"host":"model.test.example","ports":[80],"inert_ok":true}]})");
  EXPECT_THAT(converse(fmt::format("GET / HTTP/1.1\r\nHost: model.test.example\r\nConnection: "
                                   "close\r\nX-A: {}\r\n\r\n",
                                   kSecret),
                       origin("model.test.example", 80, false), std::string(kOk)),
              HasSubstr("secret_in_request"));
  EXPECT_EQ(host_got_, "");
}

}  // namespace
}  // namespace pons::egress
