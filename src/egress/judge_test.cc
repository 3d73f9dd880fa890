#include "judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "answer_filter.h"
#include "boundary_fixture.h"
#include "decision_record.h"

namespace pons::egress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kHeader = "host=api.test.example";

std::string value_of(const Judged& judged, std::string_view name) {
  for (const auto& [field, value] : judged.request.fields)
    if (equal_ignoring_case(field, name)) return value;
  return "(none)";
}

std::string get(std::string_view target, std::string_view fields = "",
                std::string_view host = "api.test.example") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: {}{}{}", target, host, fields.empty() ? "" : "\r\n",
                     fields);
}

class JudgeTest : public BoundaryTest {
 protected:
  JudgeTest() { set("TOKEN", kSecret, {std::string(kHeader)}); }
  std::string bearer(std::string_view text) {
    return fmt::format("Authorization: Bearer {}", text);
  }
};

TEST_F(JudgeTest, StubBecomesTheSecretInItsDeclaredField) {
  const auto judged = judge(get("/user", bearer(stub())));
  ASSERT_TRUE(judged) << judged.error().code;
  EXPECT_EQ(value_of(*judged, "authorization"), fmt::format("Bearer {}", kSecret));
  EXPECT_EQ(judged->credentials, std::vector<std::string>{"TOKEN"});
  EXPECT_TRUE(judged->bound);
}

TEST_F(JudgeTest, StubIsNeverSwappedTowardAnotherHost) {
  EXPECT_EQ(code(get("/", bearer(stub()), "else.test.example"), origin("else.test.example")),
            "credential_endpoint_mismatch");
}

TEST_F(JudgeTest, StubIsNeverSwappedOnAnotherPortOrWithoutTls) {
  EXPECT_EQ(
      code(get("/", bearer(stub()), "api.test.example:8443"), origin("api.test.example", 8443)),
      "credential_endpoint_mismatch");
  EXPECT_EQ(code(get("/", bearer(stub())), origin("api.test.example", 80, false)),
            "credential_endpoint_mismatch");
}

TEST_F(JudgeTest, StubInAnUndeclaredPlaceIsRefused) {
  EXPECT_EQ(code(get("/" + stub())), "undeclared_position");
  EXPECT_EQ(code(get("/?q=" + stub())), "undeclared_position");
  EXPECT_EQ(code(get("/", "X-Other: " + stub())), "undeclared_position");
  EXPECT_EQ(code(get("/", stub() + ": x")), "undeclared_position");
  EXPECT_EQ(code(get("/", "X-Forwarded-For: " + stub())), "undeclared_position");
}

TEST_F(JudgeTest, AWholeAddressHasTheSchemeOfItsConnection) {
  EXPECT_EQ(code(get("http://api.test.example/")), "malformed_request");
  EXPECT_EQ(code(get("https://api.test.example/"), origin("api.test.example", 80, false)),
            "malformed_request");
  EXPECT_EQ(code(get("HTTP://api.test.example/"), origin("api.test.example", 80, false)), "");
}

TEST_F(JudgeTest, AMethodIsWrittenInCapitals) {
  for (const char* method : {"get", "aGET", "G3T", "GET."})
    EXPECT_EQ(code(fmt::format("{} / HTTP/1.1\r\nHost: api.test.example", method)),
              "malformed_request")
        << method;
  EXPECT_EQ(code("M-SEARCH / HTTP/1.1\r\nHost: api.test.example"), "");
}

TEST_F(JudgeTest, TheSecretItselfIsRefusedEvenTowardItsHost) {
  EXPECT_EQ(code(get("/", bearer(kSecret))), "secret_in_request");
  EXPECT_EQ(
      code(get(fmt::format("/{}", kSecret), "", "else.test.example"), origin("else.test.example")),
      "secret_in_request");
}

TEST_F(JudgeTest, ABoundHostTakesNobodyElsesCredential) {
  EXPECT_EQ(code(get("/", bearer("ghp_of_somebody_else"))), "foreign_credential");
  EXPECT_EQ(code(get("/", "X-Goog-Api-Key: mine")), "foreign_credential");
  EXPECT_EQ(code(get("/?access_token=mine")), "foreign_credential");
  EXPECT_EQ(code(get("/?a=b&access%5Ftoken=mine")), "foreign_credential");
  EXPECT_EQ(code(get("/?token=mine")), "foreign_credential");
  EXPECT_EQ(code(get("/?page_token=mine")), "");
}

TEST_F(JudgeTest, ACredentialFieldStandsOnce) {
  EXPECT_EQ(code(get("/", bearer(stub()) + "\r\nAuthorization: Bearer mine")),
            "duplicate_credential");
}

TEST_F(JudgeTest, ADuplicateOfADeclaredParameterIsNotForwarded) {
  set("TOKEN", kSecret, {"host=api.test.example,query=key"});
  EXPECT_EQ(code(get("/?key=" + stub())), "");
  EXPECT_EQ(code(get("/?key=mine")), "foreign_credential");
  EXPECT_EQ(code(get("/?key=" + stub() + "&key=mine")), "foreign_credential");
  EXPECT_EQ(code(get("/?key=" + stub() + "&KEY=mine")), "foreign_credential");
  EXPECT_EQ(code(get("/?key=" + stub() + "&key=" + stub())), "undeclared_position");
}

TEST_F(JudgeTest, TwoCredentialsMayStandInOneTarget) {
  set("TOKEN", kSecret, {"host=api.test.example,query=key"});
  set("OTHER", kOtherSecret, {"host=api.test.example,query=token"});
  const auto judged = judge(get("/x?a=1&key=" + stub() + "&token=" + stub("OTHER") + "&b=2"));
  ASSERT_TRUE(judged) << judged.error().code;
  EXPECT_EQ(judged->request.target,
            fmt::format("/x?a=1&key={}&token={}&b=2", kSecret, kOtherSecret));
  EXPECT_EQ(code(get("/x?key=" + stub("OTHER") + "&token=" + stub())), "undeclared_position");
}

TEST_F(JudgeTest, TheTargetIsForwardedAsItWasWithoutStubs) {
  for (const char* target : {"/", "/a/b?", "/a?&&x=1&", "/a?x", "/a?x=1&x=1", "/a??", "/a%20b?%20"})
    EXPECT_EQ(judge(get(target))->request.target, target);
  EXPECT_EQ(judge(get("https://api.test.example/a?"))->request.target, "/a?");
}

TEST_F(JudgeTest, AnotherHostThanTheConnectionsIsRefused) {
  EXPECT_EQ(code(get("/", "", "else.test.example")), "host_mismatch");
  EXPECT_EQ(code(get("/", "", "api.test.example:80")), "host_mismatch");
  EXPECT_EQ(code(get("/", "", "API.Test.Example.")), "");
}

TEST_F(JudgeTest, WhatWouldHideASecretInTheAnswerIsNotAskedFor) {
  const auto judged = judge(get("/", "Range: bytes=0-3\r\nAccept-Encoding: br\r\nTE: gzip"));
  ASSERT_TRUE(judged) << judged.error().code;
  EXPECT_EQ(value_of(*judged, "range"), "(none)");
  EXPECT_EQ(value_of(*judged, "accept-encoding"), "identity");
  EXPECT_EQ(value_of(*judged, "te"), "(none)");
}

TEST_F(JudgeTest, AnswersOfABoundHostAreScrubbedOnEveryPort) {
  EXPECT_TRUE(judge(get("/"), origin("api.test.example", 80, false))->scrubs);
  EXPECT_TRUE(
      judge(get("/", "", "api.test.example:8443"), origin("api.test.example", 8443))->scrubs);
  EXPECT_FALSE(judge(get("/", "", "else.test.example"), origin("else.test.example"))->scrubs);
}

TEST_F(JudgeTest, AnswersAreScrubbedForSandboxesWithoutTheCredentialToo) {
  adopt(R"({"mode":"list","allow":[{"host":"api.test.example","methods":["GET"]}]})");
  const auto judged = judge(get("/"));
  ASSERT_TRUE(judged) << judged.error().code;
  EXPECT_TRUE(judged->scrubs);
  EXPECT_FALSE(judged->bound);
}

TEST_F(JudgeTest, ABoundHostTakesNoCredentialFromASandboxThatHasNone) {
  adopt(R"({"mode":"list","allow":[{"host":"api.test.example","ports":[443,80]}]})");
  EXPECT_EQ(code(get("/")), "");
  EXPECT_EQ(code(get("/", bearer("ghp_of_somebody_else"))), "foreign_credential");
  EXPECT_EQ(code(get("/?access_token=mine")), "foreign_credential");
  set("TOKEN", kSecret, {"host=api.test.example,header=X-Own-Key,format={}"});
  EXPECT_EQ(code(get("/", "x-own-key: mine")), "foreign_credential");
  EXPECT_EQ(code(get("/", "x-own-key: mine"), origin("api.test.example", 80, false)),
            "foreign_credential");
}

TEST_F(JudgeTest, HostsAreBoundForEverybodyAndLookedIntoAWhileLonger) {
  const auto bound = [&](std::string_view host) {
    return bound_hosts_->contains(*parse_destination(host));
  };
  EXPECT_TRUE(bound("api.test.example"));
  EXPECT_FALSE(bound("test.example"));
  set("OTHER", kOtherSecret, {"host=*.wild.example,port=8443"});
  EXPECT_TRUE(bound("a.wild.example"));
  EXPECT_FALSE(bound("wild.example"));
  EXPECT_FALSE(bound("a.b.wild.example"));
  EXPECT_FALSE(bound("93.184.216.34"));
  EXPECT_TRUE(bound_hosts_->contains(*parse_destination("a.wild.example"), 8443));
  EXPECT_FALSE(bound_hosts_->contains(*parse_destination("a.wild.example"), 443));
  const auto host = *parse_destination("api.test.example");
  EXPECT_EQ(bound_hosts_->credentials_for(host).size(), 1U);
  ASSERT_TRUE(vault_->remove("TOKEN"));
  EXPECT_TRUE(bound("api.test.example")) << "it may show what it was sent";
  EXPECT_TRUE(bound_hosts_->credentials_for(host).empty());
}

TEST_F(JudgeTest, OnlyARuleLetsTlsPassToABareAddress) {
  const Origin address{*parse_destination("93.184.216.34"), 443, true};
  adopt(R"({"mode":"public"})");
  EXPECT_TRUE(is_nameless(address, *sandbox_->policy));
  EXPECT_FALSE(is_nameless({address.host, 80, false}, *sandbox_->policy));
  EXPECT_FALSE(is_nameless(origin(), *sandbox_->policy));
  adopt(R"({"mode":"public","allow":[{"host":"93.184.216.34"}]})");
  EXPECT_FALSE(is_nameless(address, *sandbox_->policy));
}

// As after a restart of egress that finds the credential's file damaged.
TEST_F(JudgeTest, TheStubOfADamagedCredentialDoesNotLeave) {
  const std::string old = stub();
  sandbox_->remember_grants(*vault_);
  const auto known = sandbox_->known_stubs();
  write_text(dir_.file("vault/TOKEN.sealed"), "damaged");
  vault_ = *vault::Vault::open(dir_.path(), *vault_key_, clock_);
  ASSERT_EQ(vault_->damaged().size(), 1U);
  VaultNeedles secrets(*vault_);
  BoundHosts bound_hosts(*vault_);
  Boundary after{.loop = *loop_,
                 .clock = clock_,
                 .vault = *vault_,
                 .secrets = secrets,
                 .bound_hosts = bound_hosts,
                 .sent_secrets = *sent_secrets_,
                 .audit = *audit_,
                 .access = *access_,
                 .resolver = *resolver_,
                 .leaves = *leaves_,
                 .server_tls = nullptr,
                 .client_tls = nullptr,
                 .sessions = nullptr};
  AttachedSandbox again(*loop_, 1, "sandbox-1", sandbox_->policy);
  again.remember_stubs(known);
  bytes_ = get("/", "X-A: " + old, "else.test.example") + "\r\n\r\n";
  std::size_t scanned = 0;
  http::parse_request_head(bytes_, scanned, {}, head_);
  const auto judged = judge_request(after, again, origin("else.test.example"), head_);
  ASSERT_FALSE(judged);
  EXPECT_EQ(judged.error().code, "credential_unavailable");
}

TEST_F(JudgeTest, TheStubOfARemovedCredentialDoesNotLeave) {
  const std::string old = stub();
  EXPECT_EQ(code(get("/", bearer(old))), "");
  ASSERT_TRUE(vault_->remove("TOKEN"));
  EXPECT_EQ(code(get("/", bearer(old))), "credential_unavailable");
}

TEST_F(JudgeTest, ALimitOfRequestsGivesThatMany) {
  adopt(R"({"mode":"list","allow":[{"host":"api.test.example"}],"limits":{"requests":2}})");
  for (const char* expected : {"", "", "budget_spent"}) {
    ++sandbox_->traffic.requests;  // as whoever carries it does, before it is judged
    EXPECT_EQ(code(get("/")), expected);
  }
}

TEST_F(JudgeTest, BytesBeyondTheLimitDoNotLeave) {
  adopt(R"({"mode":"list","allow":[{"host":"api.test.example"}],"limits":{"bytes_out":100}})");
  EXPECT_TRUE(sandbox_->spend(60));
  EXPECT_FALSE(sandbox_->spend(60));
  EXPECT_EQ(code(get("/")), "budget_spent");
}

TEST_F(JudgeTest, AnAddressFromBeforeARestartDoesNotLeadToAnotherName) {
  const auto name = [](std::string_view text) { return *names::HostName::parse(text); };
  const TimePoint now = loop_->now();
  const auto before = sandbox_->names.assign(name("one.example"), Breadth::kNamed, now)->v4;
  int wrong = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    AttachedSandbox again(*loop_, 1, "sandbox-1", sandbox_->policy);
    (void)again.names.assign(name("two.example"), Breadth::kNamed, now);
    wrong += again.names.find(before).has_value() ? 1 : 0;
  }
  EXPECT_LE(wrong, 1);
}

TEST_F(JudgeTest, ASubprotocolIsAWordAndNoCredential) {
  const auto offer = [&](std::string_view words) {
    return code("GET / HTTP/1.1\r\nHost: api.test.example\r\nSec-WebSocket-Protocol: " +
                std::string(words));
  };
  for (const char* word : {"graphql-transport-ws", "v5.channel.k8s.io, v4.channel.k8s.io", "mqtt",
                           "wamp.2.json", "openai-beta.realtime-v1"})
    EXPECT_EQ(offer(word), "") << word;
  for (const char* word : {"ghp_0123456789abcdefghij", "abcdefghijklmnopqrst", "0123456789abcdef",
                           "graphql-ws, key.sk-abcdefghijklmnopqrstuvwx", "a b", "a=b", ""})
    EXPECT_EQ(offer(word), "foreign_credential") << word;
  EXPECT_EQ(offer(stub()), "undeclared_position");
}

TEST_F(JudgeTest, DecisionsHoldNeitherStubsNorSecrets) {
  for (const std::string& text : {stub(), std::string(kSecret)})
    record_decision(*boundary_, *sandbox_,
                    {.verdict = audit::Verdict::kBlock,
                     .sandbox = {},
                     .session = {},
                     .code = "undeclared_position",
                     .rule = {},
                     .method = "X" + text,
                     .host = "api.test.example",
                     .port = 443,
                     .protocol = "http/1.1",
                     .path = "/a/" + text,
                     .credentials = {},
                     .request_id = "req_1"});
  EXPECT_THAT(logged(), HasSubstr("undeclared_position"));
  EXPECT_THAT(logged(), HasSubstr("withheld"));
  EXPECT_THAT(logged(), Not(HasSubstr(stub())));
  EXPECT_THAT(logged(), Not(HasSubstr(std::string(kSecret))));
}

// ---- fields that the policy sets

constexpr std::string_view kOwn = "own-secret-of-the-project-0123";

class FieldRuleTest : public JudgeTest {
 protected:
  FieldRuleTest() {
    keep("mine", "key", kOwn);
    adopt(R"({"mode":"list","project":"mine","allow":[{"host":"else.test.example"},
        {"host":"api.test.example"},{"host":"third.test.example"}],
        "fields":[{"host":"else.test.example",
                   "set":{"X-Token":"v ${e2b.secrets.key}","X-Plain":"literal"}},
                  {"host":"api.test.example","set":{"Authorization":"other"}},
                  {"host":"never.test.example","set":{"X":"1"}}]})");
  }
  void keep(const std::string& project, const std::string& name, std::string_view value) {
    EXPECT_TRUE(project_secrets_->create(project, name, Secret(std::string(value)), {}));
  }
  static Origin to_else(bool tls = true) {
    return origin("else.test.example", tls ? 443 : 80, tls);
  }
  std::expected<Judged, Refusal> judge_else(std::string_view fields = "", bool tls = true) {
    return judge(get("/", fields, "else.test.example"), to_else(tls));
  }
};

TEST_F(FieldRuleTest, ASecretIsPutIntoItsFieldWhateverTheSandboxWrote) {
  const auto judged = judge_else("x-token: mine\r\nX-TOKEN: again\r\nX_Token: hidden");
  ASSERT_TRUE(judged) << judged.error().code;
  EXPECT_EQ(value_of(*judged, "x_token"), "(none)") << "some servers read it as the same";
  EXPECT_EQ(value_of(*judged, "x-token"), fmt::format("v {}", kOwn));
  EXPECT_EQ(std::ranges::count_if(
                judged->request.fields,
                [](const auto& field) { return equal_ignoring_case(field.first, "x-token"); }),
            1);
  EXPECT_EQ(value_of(*judged, "x-plain"), "literal");
  EXPECT_EQ(judged->credentials, std::vector<std::string>{"e2b.secrets.key"});
  EXPECT_EQ(value_of(*judged, "accept-encoding"), "identity");
  EXPECT_TRUE(sandbox_->policy->needs_inspection(to_else().host, 443));
}

TEST_F(FieldRuleTest, NoOtherHostGetsIt) {
  const auto judged = judge(get("/", "", "third.test.example"), origin("third.test.example"));
  ASSERT_TRUE(judged);
  EXPECT_EQ(value_of(*judged, "x-token"), "(none)");
  EXPECT_FALSE(sandbox_->policy->needs_inspection(origin("third.test.example").host, 443));
}

TEST_F(FieldRuleTest, AHostWithARuleOfItsOwnIsSentNothingOfAWildcard) {
  adopt(R"({"mode":"list","project":"mine","allow":[{"host":"else.test.example"},
      {"host":"third.test.example"}],"fields":[
      {"host":"*.example","set":{"X-Token":"${e2b.secrets.KEY}"}},
      {"host":"else.test.example","set":{"X-Plain":"literal"}}]})");
  const auto own = judge_else();
  ASSERT_TRUE(own);
  EXPECT_EQ(value_of(*own, "x-token"), "(none)");
  EXPECT_EQ(value_of(*own, "x-plain"), "literal");
  const auto other = judge(get("/", "", "third.test.example"), origin("third.test.example"));
  ASSERT_TRUE(other);
  EXPECT_EQ(value_of(*other, "x-token"), kOwn);
  EXPECT_EQ(value_of(*other, "x-plain"), "(none)");
  EXPECT_TRUE(sent_secrets_->contains("mine", origin("third.test.example").host));
}

TEST_F(FieldRuleTest, ASecretDoesNotTravelOnALineThatAnyoneCanRead) {
  const auto judged = judge_else("", false);
  ASSERT_TRUE(judged);
  EXPECT_EQ(value_of(*judged, "x-token"), "(none)");
  EXPECT_EQ(value_of(*judged, "x-plain"), "literal");
}

TEST_F(FieldRuleTest, ARuleOpensNoHost) {
  EXPECT_EQ(code(get("/", "", "never.test.example"), origin("never.test.example")),
            "host_not_allowed");
}

TEST_F(FieldRuleTest, AHostOfTheOperatorsCredentialTakesNoOther) {
  EXPECT_EQ(code(get("/")), "foreign_credential");
}

TEST_F(FieldRuleTest, WithoutTheSecretTheRequestDoesNotLeave) {
  EXPECT_TRUE(project_secrets_->remove("mine", "key"));
  keep("theirs", "key", kOwn);
  EXPECT_EQ(judge_else().error().code, "secret_unavailable");
  keep("mine", "key", "short");
  EXPECT_EQ(judge_else().error().code, "secret_too_short");
}

TEST_F(FieldRuleTest, ItsAnswersShowNoSecretOfTheProject) {
  auto judged = judge_else();
  ASSERT_TRUE(judged);
  http::ResponseHead head;
  head.status = 200;
  const std::string echoed = fmt::format("you sent {}", kOwn);
  head.fields = {{"X-Echo", echoed}};
  auto filter = AnswerFilter::open(*boundary_, *sandbox_, *judged, head);
  ASSERT_TRUE(filter);
  EXPECT_EQ(filter->take_head().fields.front().second, "you sent xxx-xxxxxx-xx-xxx-xxxxxxx-xxxx");
  std::string out;
  EXPECT_TRUE(filter->feed("body " + std::string(kOwn), out));
  EXPECT_TRUE(filter->finish(out));
  EXPECT_EQ(out, "body xxx-xxxxxx-xx-xxx-xxxxxxx-xxxx");
  EXPECT_TRUE(filter->has_scrubbed());
}

// What a sandbox that has no rule for the host gets to see of its answer.
class SentSecretTest : public FieldRuleTest {
 protected:
  SentSecretTest() {
    project_secrets_->on_change([this](const std::string& project, const std::string& name) {
      const auto now = project_secrets_->find_named(project, name);
      sent_secrets_->retire(project, name, now ? &now->value : nullptr);
    });
  }
  void drop_rules(std::string_view project = "mine") {
    adopt(fmt::format(R"({{"mode":"list","project":"{}","allow":[
        {{"host":"else.test.example"}},{{"host":"third.test.example"}}]}})",
                      project));
  }
  std::string seen(std::string_view body, std::string_view host = "else.test.example",
                   bool tls = true) {
    const auto judged =
        judge(get("/", "Range: bytes=1-2", host), origin(host, tls ? 443 : 80, tls));
    if (!judged) return judged.error().code;
    http::ResponseHead head;
    head.status = 200;
    auto filter = AnswerFilter::open(*boundary_, *sandbox_, *judged, head);
    if (!filter) return filter.error().code;
    std::string out;
    EXPECT_TRUE(filter->feed(body, out));
    EXPECT_TRUE(filter->finish(out));
    return out;
  }
  const std::string own_{kOwn};
};

TEST_F(SentSecretTest, WhatAHostWasSentItShowsToNoSandboxOfTheProject) {
  drop_rules();
  EXPECT_EQ(seen(own_), own_);
  EXPECT_FALSE(sent_secrets_->contains("mine", to_else().host));
  FieldRuleTest::adopt(R"({"mode":"list","project":"mine","allow":[{"host":"else.test.example"}],
      "fields":[{"host":"else.test.example","set":{"X-Token":"${e2b.secrets.key}"}}]})");
  ASSERT_TRUE(judge_else());
  drop_rules();
  EXPECT_TRUE(sent_secrets_->contains("mine", to_else().host));
  EXPECT_THAT(seen(own_), Not(HasSubstr(own_)));
  EXPECT_THAT(seen(own_, "else.test.example", false), Not(HasSubstr(own_)));
  EXPECT_EQ(seen(own_, "third.test.example"), own_);
  EXPECT_EQ(value_of(*judge_else("Range: bytes=1-2"), "range"), "(none)");
}

TEST_F(SentSecretTest, WhatOneProjectCallsItsSecretChangesNothingForAnother) {
  ASSERT_TRUE(judge_else());
  drop_rules("theirs");
  EXPECT_EQ(seen(own_), own_);
  drop_rules();
  EXPECT_THAT(seen(own_), Not(HasSubstr(own_)));
}

TEST_F(SentSecretTest, AnAnswerThatWasAskedForBeforeIsLookedThroughToo) {
  const auto sender = sandbox_;
  drop_rules();
  const auto judged = judge_else();
  ASSERT_TRUE(judged);
  sandbox_ = sender;
  ASSERT_TRUE(judge_else());
  http::ResponseHead head;
  head.status = 200;
  auto filter = AnswerFilter::open(*boundary_, *sandbox_, *judged, head);
  ASSERT_TRUE(filter);
  EXPECT_THAT(filter->clean(own_).value_or(""), Not(HasSubstr(own_)));
}

TEST_F(SentSecretTest, ACredentialThatIsWrittenInARuleIsTreatedLikeASecret) {
  const std::string live = "sk-live-0123456789abcdef";
  FieldRuleTest::adopt(fmt::format(
      R"({{"mode":"list","project":"mine","allow":[{{"host":"else.test.example"}}],
      "fields":[{{"host":"else.test.example","set":{{"Authorization":"Bearer {}",
      "Cookie":"sid=cookie-0123456789; a=b","Accept":"application/vnd.example.v3+json"}}}}]}})",
      live));
  const auto plain = judge_else("", false);
  ASSERT_TRUE(plain);
  EXPECT_EQ(value_of(*plain, "authorization"), "(none)");
  EXPECT_EQ(value_of(*plain, "cookie"), "(none)");
  EXPECT_EQ(value_of(*plain, "accept"), "application/vnd.example.v3+json");
  const auto judged = judge_else();
  ASSERT_TRUE(judged);
  EXPECT_EQ(value_of(*judged, "authorization"), "Bearer " + live);
  drop_rules();
  EXPECT_EQ(seen("token=" + live + " application/vnd.example.v3+json cookie-0123456789"),
            "token=xx-xxxx-xxxxxxxxxxxxxxxx application/vnd.example.v3+json xxxxxx-xxxxxxxxxx");
}

TEST_F(SentSecretTest, AValueInsideAnotherHidesNeither) {
  keep("mine", "inner", kOwn.substr(4, 20));
  FieldRuleTest::adopt(R"({"mode":"list","project":"mine","allow":[{"host":"else.test.example"}],
      "fields":[{"host":"else.test.example","set":{"X-A":"${e2b.secrets.key}",
      "X-B":"${e2b.secrets.inner}"}}]})");
  ASSERT_TRUE(judge_else());
  EXPECT_THAT(seen("a " + own_ + " b"), Not(HasSubstr(own_.substr(4, 20))));
  EXPECT_THAT(seen("a " + own_ + " b"), Not(HasSubstr(own_.substr(24))));
}

TEST_F(SentSecretTest, AFormerValueIsLookedForWhetherReplacedOrRemoved) {
  const std::string second = "another-secret-of-the-project-45";
  ASSERT_TRUE(judge_else());
  ASSERT_TRUE(project_secrets_->update("mine", "key", Secret(std::string(second)), {}));
  EXPECT_THAT(seen(own_ + " " + second), Not(AnyOf(HasSubstr(own_), HasSubstr(second))));
  ASSERT_TRUE(project_secrets_->remove("mine", "key"));
  drop_rules();
  EXPECT_THAT(seen(own_ + " " + second), Not(AnyOf(HasSubstr(own_), HasSubstr(second))));
}

TEST_F(JudgeTest, WhatAVaultOfTheProjectSendsIsLookedForInAllOfTheProject) {
  const std::string host = "else.test.example";
  const auto in_project = [&](std::string_view project) {
    adopt(fmt::format(R"({{"mode":"list","project":"{}","allow":[{{"host":"{}"}}]}})", project,
                      host));
  };
  const std::shared_ptr<vault::Vault> own = vault::Vault::in_memory(*vault_key_, clock_);
  ASSERT_TRUE(own->set({.name = "OWN",
                        .value = Secret(std::string(kOtherSecret)),
                        .bindings = {*vault::parse_binding_text("host=" + host)}}));
  in_project("mine");
  sandbox_->own_vaults.push_back(std::make_shared<VaultInUse>(own));
  const std::string own_stub = sandbox_->stub_for(*own, **own->load("OWN"));
  const auto told = [&]() -> std::string {
    const auto judged = judge(get("/stored", "", host), origin(host));
    auto filter = AnswerFilter::open(*boundary_, *sandbox_, *judged, {});
    std::string out;
    EXPECT_TRUE(filter && filter->feed(kOtherSecret, out) && filter->finish(out));
    return out;
  };
  ASSERT_TRUE(judge(get("/store", bearer(own_stub), host), origin(host)));
  EXPECT_EQ(told(), own_stub);
  in_project("mine");
  EXPECT_EQ(told(), "xxx_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
  in_project("theirs");
  EXPECT_EQ(told(), kOtherSecret) << "no business of theirs";
}

// A project may call a variable as the operator does.
TEST_F(JudgeTest, ACredentialIsTheOneThatTheSandboxWasGivenByItsName) {
  const std::shared_ptr<vault::Vault> own = vault::Vault::in_memory(*vault_key_, clock_);
  ASSERT_TRUE(own->set({.name = "TOKEN",
                        .value = Secret(std::string(kOtherSecret)),
                        .bindings = {*vault::parse_binding_text("host=api.test.example")}}));
  const auto value = [&] {
    sandbox_->own_vaults.push_back(std::make_shared<VaultInUse>(own));
    const auto found = find_credential(*boundary_, *sandbox_, "TOKEN");
    return found ? std::string(found->value.reveal()) : "";
  };
  EXPECT_EQ(value(), kSecret) << "the policy grants the operator's";
  adopt(R"({"mode":"list","project":"p","allow":[{"host":"api.test.example"}]})");
  EXPECT_EQ(value(), kOtherSecret);
  const std::string stub = sandbox_->stub_for(*own, **own->load("TOKEN"));
  const auto judged = judge(get("/", bearer(stub)));
  ASSERT_TRUE(judged) << judged.error().code;
  ASSERT_EQ(judged->used.size(), 1U);
  EXPECT_EQ(find_credential(*boundary_, *sandbox_, "TOKEN"), judged->used[0]);
}

}  // namespace
}  // namespace pons::egress
