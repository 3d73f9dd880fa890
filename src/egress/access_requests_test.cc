#include "access_requests.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "raw_relay_fixture.h"

namespace pons::egress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

AccessWish wish_for(std::string_view host, std::string reason = "why not") {
  return {.host = *parse_destination(host), .methods = {}, .reason = std::move(reason)};
}

class AccessRequestsTest : public ::testing::Test {
 protected:
  std::unique_ptr<AccessRequests> open() { return *AccessRequests::open(dir_.path(), clock_); }
  TempDir dir_;
  ManualClock clock_;
};

TEST_F(AccessRequestsTest, WhatWasAskedIsThereAfterARestart) {
  const auto request = open()->add("work", 7, wish_for("a.example", "tests \"quoted\" ü"));
  ASSERT_TRUE(request) << request.error().describe();
  const auto again = open();
  ASSERT_EQ(again->all().size(), 1U);
  EXPECT_EQ(dump_json(to_json(again->all().front())), dump_json(to_json(*request)));
  EXPECT_EQ(again->find_pending(7, wish_for("a.example", "another reason"))->id, request->id);
  EXPECT_EQ(again->find_pending(8, wish_for("a.example")), nullptr);
}

TEST_F(AccessRequestsTest, AClosedRequestIsNoLongerPendingAndMayBeAskedAgain) {
  const auto requests = open();
  const auto first = requests->add("work", 7, wish_for("a.example"));
  ASSERT_TRUE(requests->close(first->id));
  EXPECT_TRUE(requests->close(first->id)) << "closing twice is no fault";
  EXPECT_EQ(requests->pending(), 0U);
  EXPECT_EQ(requests->find_pending(7, wish_for("a.example")), nullptr);
  EXPECT_EQ(requests->close("acc_unknown").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(open()->pending(), 0U);
}

TEST_F(AccessRequestsTest, OneSandboxCannotFillTheList) {
  const auto requests = open();
  for (std::size_t i = 0; i < kPendingPerSandboxMax; ++i)
    ASSERT_TRUE(requests->add("work", 7, wish_for(fmt::format("h{}.example", i))));
  EXPECT_EQ(requests->add("work", 7, wish_for("more.example")).error().code, ErrorCode::kLimit);
  EXPECT_TRUE(requests->add("other", 8, wish_for("more.example")));
}

TEST_F(AccessRequestsTest, TheListIsBoundedAndClosedRequestsMakeRoom) {
  Json list = Json::array();
  for (std::size_t i = 0; i < kAccessRequestsMax; ++i)
    list.push_back(to_json(
        AccessRequest{.id = fmt::format("acc_{}", i),
                      .sandbox = "work",
                      .sandbox_key = i / kPendingPerSandboxMax,
                      .wish = wish_for(fmt::format("h{}.example", i), std::string(500, '"')),
                      .asked_unix_ms = 1}));
  write_text(dir_.file("access-requests.json"), dump_json({{"requests", list}}));
  const auto requests = open();
  ASSERT_EQ(requests->all().size(), kAccessRequestsMax);
  EXPECT_LT(read_text(dir_.file("access-requests.json")).size(), 1UZ << 20);
  EXPECT_EQ(requests->add("new", 999, wish_for("x.example")).error().code, ErrorCode::kLimit);
  ASSERT_TRUE(requests->close("acc_0"));
  EXPECT_TRUE(requests->add("new", 999, wish_for("x.example")));
  EXPECT_EQ(requests->all().size(), kAccessRequestsMax);
  EXPECT_EQ(open()->all().size(), kAccessRequestsMax);
}

TEST_F(AccessRequestsTest, ADamagedFileIsPutAside) {
  for (const char* text : {"", "[]", R"({"requests":[{"id":7}]})", R"({"requests":7})"}) {
    write_text(dir_.file("access-requests.json"), text);
    EXPECT_TRUE(open()->all().empty());
    EXPECT_EQ(read_text(dir_.file("access-requests.json.damaged")), text);
  }
}

// ---- as a program in the sandbox asks

class AskingTest : public RawRelayTest {
 protected:
  static std::string post(std::string_view body, std::string_view target = "/access-requests",
                          std::string_view method = "POST") {
    return fmt::format(
        "{} {} HTTP/1.1\r\nHost: tools.pons.internal\r\nConnection: close\r\n"
        "Content-Length: {}\r\n\r\n{}",
        method, target, body.size(), body);
  }
  std::string ask(std::string_view body) { return converse(post(body), tools()); }
  static Origin tools() { return origin("tools.pons.internal", 80, false); }
  static std::string body_of(const std::string& answer) {
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }
  static constexpr std::string_view kWish = R"({"host":"b.example","reason":"to build"})";
};

TEST_F(AskingTest, AskingGivesAnIdAndIsKeptAndRecordedAndOpensNothing) {
  const std::string answer = ask(kWish);
  EXPECT_THAT(answer, AllOf(HasSubstr("202 Accepted"), HasSubstr(R"("status":"pending")")));
  ASSERT_EQ(access_->all().size(), 1U);
  const AccessRequest& request = access_->all().front();
  EXPECT_THAT(answer, HasSubstr(request.id));
  EXPECT_EQ(request.sandbox, "sandbox-1");
  EXPECT_EQ(request.wish.reason, "to build");
  EXPECT_THAT(logged(),
              AllOf(HasSubstr(R"("kind":"access_request","status":"pending")"),
                    HasSubstr(R"("host":"b.example")"), HasSubstr(request.id),
                    HasSubstr(R"("host":"tools.pons.internal")"), Not(HasSubstr("to build"))));
  EXPECT_FALSE(sandbox_->policy->judge_connect(*parse_destination("b.example"), 443).allowed());
}

TEST_F(AskingTest, TheProxyTakesItToo) {
  const std::string answer =
      converse(post(kWish, "http://tools.pons.internal/access-requests"), std::nullopt);
  EXPECT_THAT(answer, HasSubstr("202 Accepted"));
}

TEST_F(AskingTest, TheSameAgainIsTheSameRequest) {
  const std::string first = ask(kWish);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(body_of(ask(R"({"reason":"another one","host":"B.example"})")), body_of(first));
  EXPECT_EQ(access_->all().size(), 1U);
}

TEST_F(AskingTest, ASandboxThatAsksWithoutPauseIsRefused) {
  std::string last;
  for (int i = 0; i < 10; ++i)
    last = ask(fmt::format(R"({{"host":"h{}.example","reason":"x"}})", i));
  EXPECT_THAT(last, AllOf(HasSubstr("429"), HasSubstr("too_many_access_requests")));
  EXPECT_LT(access_->all().size(), 10U);
}

TEST_F(AskingTest, WhatIsNoWishIsRefusedWithWordsToActOn) {
  EXPECT_THAT(ask("{"), AllOf(HasSubstr("400"), HasSubstr("malformed_request")));
  EXPECT_THAT(ask(R"({"host":"b.example","reason":"a\u001b[2Jb"})"), HasSubstr("400"));
  EXPECT_THAT(ask(fmt::format(R"({{"host":"b.example","reason":"{}"}})", std::string(9000, 'x'))),
              HasSubstr("400"));
  EXPECT_THAT(ask(std::string(200'000, 'x')), HasSubstr("413"));
  EXPECT_TRUE(access_->all().empty());
}

TEST_F(AskingTest, NeitherStubsNorSecretsAreKept) {
  set("TOKEN", kSecret, {"host=api.test.example"});
  const std::string stub_reason = fmt::format(R"({{"host":"b.example","reason":"{}"}})", stub());
  EXPECT_THAT(ask(stub_reason), HasSubstr("credential_endpoint_mismatch"));
  EXPECT_THAT(ask(fmt::format(R"({{"host":"b.example","reason":"{}"}})", kSecret)),
              HasSubstr("secret_in_request"));
  set("OTHER", "n3Vt6JwRk8CzPq1LxDy5MbSh0FgAe9UuTo27", {"host=api.test.example"});
  EXPECT_THAT(ask(R"({"host":"n3vt6jwrk8czpq1lxdy5.mbsh0fgae9uuto27.example","reason":"x"})"),
              HasSubstr("secret_in_request"));
  EXPECT_TRUE(access_->all().empty());
}

TEST_F(AskingTest, NothingElseIsThere) {
  EXPECT_THAT(converse(post("", "/access-requests", "GET"), tools()), HasSubstr("405"));
  for (const char* target : {"/", "/access-requests/", "/sandboxes", "/vault", "/healthz"})
    EXPECT_THAT(converse(post(kWish, target), tools()), HasSubstr(" 404 ")) << target;
}

TEST_F(AskingTest, ARefusalNamesTheWayToAsk) {
  const std::string answer =
      converse("GET / HTTP/1.1\r\nHost: b.example\r\nConnection: close\r\n\r\n",
               origin("b.example", 80, false));
  EXPECT_THAT(answer, AllOf(HasSubstr("host_not_allowed"),
                            HasSubstr("http://tools.pons.internal/access-requests")));
}

// ---- as a person answers

TEST_F(AccessRequestsTest, WhatAPersonSaidIsThereAfterARestart) {
  const auto requests = open();
  const auto request = requests->add("work", 7, wish_for("a.example"));
  ASSERT_TRUE(requests->tell(request->id, AccessStatus::kPending, "sesn_1"));
  EXPECT_TRUE(requests->untold().empty());
  ASSERT_TRUE(requests->close(request->id, AccessStatus::kDenied, "not on Fridays"));
  EXPECT_EQ(requests->close(request->id, AccessStatus::kAllowed)->status, AccessStatus::kDenied)
      << "what was decided stands";
  const auto again = open();
  const AccessRequest* known = again->find_decided(7, wish_for("a.example"));
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->message, "not on Fridays");
  EXPECT_EQ(known->session, "sesn_1");
  ASSERT_EQ(again->untold().size(), 1U) << "the session has not heard of it";
  ASSERT_TRUE(again->tell(request->id, AccessStatus::kDenied, "sesn_1"));
  EXPECT_TRUE(open()->untold().empty());
}

TEST_F(AccessRequestsTest, WhatAPersonSaysIsBounded) {
  const auto requests = open();
  const auto first = requests->add("work", 7, wish_for("a.example"));
  std::string much;
  for (int i = 0; i < 1'000; ++i) much += "ü!";
  const auto closed = requests->close(first->id, AccessStatus::kDenied, much);
  EXPECT_LE(closed->message.size(), kAnswerBytesMax);
  EXPECT_TRUE(much.starts_with(closed->message) && !closed->message.empty());
  const auto second = requests->add("work", 7, wish_for("b.example"));
  EXPECT_EQ(requests->close(second->id, AccessStatus::kDenied, "\xff\xfe")->message, "");
}

TEST_F(AskingTest, WhoAsksAgainHearsWhetherPeopleAreAsked) {
  EXPECT_THAT(ask(kWish), Not(HasSubstr("asked")));
  const std::string id = access_->all().front().id;
  ASSERT_TRUE(access_->tell(id, AccessStatus::kPending, ""));
  EXPECT_THAT(ask(kWish), Not(HasSubstr("asked"))) << "the operator alone";
  ASSERT_TRUE(access_->tell(id, AccessStatus::kPending, "sesn_1"));
  EXPECT_THAT(ask(kWish), AllOf(HasSubstr("202"), HasSubstr(R"("asked":"session")")));
}

TEST_F(AskingTest, ADenialIsWhatTheSandboxHears) {
  const auto get = [&] {
    return converse("GET / HTTP/1.1\r\nHost: b.example\r\nConnection: close\r\n\r\n",
                    origin("b.example", 443, false));
  };
  ask(kWish);
  const std::string id = access_->all().front().id;
  EXPECT_THAT(get(), AllOf(HasSubstr("host_not_allowed"), HasSubstr(id)));
  ASSERT_TRUE(access_->close(id, AccessStatus::kDenied, "not on Fridays"));
  EXPECT_THAT(get(), AllOf(HasSubstr("host_not_allowed"), HasSubstr("not on Fridays")));
  EXPECT_THAT(ask(kWish),
              AllOf(HasSubstr("403"), HasSubstr("access_denied"), HasSubstr("not on Fridays")));
  EXPECT_EQ(access_->all().size(), 1U) << "nobody is asked again";
}

TEST_F(AskingTest, WhatIsAllowedAndInForceIsNotAskedAgain) {
  ask(kWish);
  ASSERT_TRUE(access_->close(access_->all().front().id, AccessStatus::kAllowed));
  EXPECT_THAT(ask(kWish), HasSubstr("202")) << "its rules were replaced meanwhile";
  ASSERT_TRUE(access_->close(access_->all().back().id, AccessStatus::kAllowed));
  sandbox_->policy =
      sandbox_->policy->widened(*names::HostName::parse("b.example"), 443, {}, "person");
  EXPECT_THAT(ask(kWish), AllOf(HasSubstr("200 OK"), HasSubstr(R"("status":"allowed")")));
}

}  // namespace
}  // namespace pons::egress
