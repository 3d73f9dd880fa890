#include "pons/egress/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy_rule.h"

namespace pons::egress {
namespace {

using ::testing::HasSubstr;

names::HostName name(std::string_view text) {
  return names::HostName::parse(text).value();
}
names::IpAddress address(std::string_view text) {
  return names::IpAddress::parse(text).value();
}

PackageHosts some_packages() {
  return {{"apt", {{.host = name("deb.example.org"), .port = 80}}},
          {"npm", {{.host = name("registry.npm.example")}}}};
}

std::shared_ptr<const Policy> compile(std::string_view document) {
  const auto packages = some_packages();
  auto policy = Policy::compile(document, 7, packages);
  EXPECT_TRUE(policy) << policy.error().describe();
  return policy ? *policy : Policy::closed(0);
}

std::string refusal(std::string_view document) {
  const auto packages = some_packages();
  const auto policy = Policy::compile(document, 7, packages);
  return policy ? "accepted" : policy.error().message;
}

std::string allowing(std::string_view rule) {
  return R"({"mode":"list","allow":[)" + std::string(rule) + "]}";
}

Reason connects(const Policy& policy, std::string_view host, std::uint16_t port = 443) {
  return policy.judge_connect(parse_destination(host).value(), port).reason;
}

Reason requests(const Policy& policy, std::string_view host, std::string_view method,
                std::string_view target) {
  return policy.judge_request(parse_destination(host).value(), 443, method, target).reason;
}

TEST(PolicyTest, NothingIsReachedWithoutARule) {
  for (const auto& policy : {Policy::closed(3), compile(R"({"mode":"none"})")}) {
    EXPECT_EQ(connects(*policy, "example.com"), Reason::kNetworkOff);
    EXPECT_EQ(connects(*policy, "8.8.8.8"), Reason::kNetworkOff);
    EXPECT_EQ(policy->judge_name(name("example.com")).reason, Reason::kNetworkOff);
    EXPECT_EQ(policy->judge_address(name("example.com"), 443, address("8.8.8.8")).reason,
              Reason::kNetworkOff);
  }
  const auto policy = compile(allowing(R"({"host":"api.github.com"})"));
  EXPECT_EQ(policy->generation(), 7U);
  EXPECT_EQ(connects(*policy, "API.github.com."), Reason::kAllowed);
  EXPECT_EQ(connects(*policy, "api.github.com", 80), Reason::kAllowed);
  EXPECT_EQ(connects(*policy, "api.github.com", 22), Reason::kPortNotAllowed);
  for (const char* other :
       {"github.com", "gist.github.com", "raw.githubusercontent.com", "codeload.github.com",
        "api.github.com.evil.com", "evil-api.github.com", "8.8.8.8", "::1"})
    EXPECT_EQ(connects(*policy, other), Reason::kHostNotAllowed) << other;
}

TEST(PolicyTest, AModeThatIsOffIgnoresItsRules) {
  const auto policy = compile(R"({"mode":"none","allow":[{"host":"example.com"}]})");
  EXPECT_EQ(connects(*policy, "example.com"), Reason::kNetworkOff);
  EXPECT_EQ(requests(*policy, "example.com", "GET", "/"), Reason::kNetworkOff);
}

TEST(PolicyTest, AWildcardIsExactlyOneLabelOnALabelBorder) {
  const auto policy = compile(allowing(R"({"host":"*.example.com"})"));
  EXPECT_EQ(connects(*policy, "a.example.com"), Reason::kAllowed);
  for (const char* other : {"example.com", "a.b.example.com", "evil-example.com",
                            "example.com.evil.com", "a.example.com.evil.com"})
    EXPECT_EQ(connects(*policy, other), Reason::kHostNotAllowed) << other;
  EXPECT_EQ(policy->judge_name(name("a.example.com")).breadth, Breadth::kOneLabel);
}

TEST(PolicyTest, WildcardsOverNamesOfDifferentOwnersAreRefused) {
  for (const char* host :
       {"*.com", "*.co.uk", "*.github.io", "*.vercel.app", "*.s3.amazonaws.com", "*.workers.dev",
        "*.ngrok.app", "*.compute.amazonaws.com", "*.corp", "*.blob.core.windows.net",
        "*.GitHub.IO.", "*.trycloudflare.com", "*.hf.space", "*.fastly.net"})
    EXPECT_THAT(refusal(allowing(R"({"host":")" + std::string(host) + R"("})")),
                HasSubstr("/allow/0/host: names below"))
        << host;
}

TEST(PolicyTest, PatternsThatAreNotAWholeLabelAreRefused) {
  for (const char* host : {"*example.com", "a*.example.com", "api.*.com", "*.*.example.com", "**",
                           ".*example.com", "^api.github.com$"})
    EXPECT_THAT(refusal(allowing(R"({"host":")" + std::string(host) + R"("})")),
                HasSubstr("/allow/0/host: "))
        << host;
}

TEST(PolicyTest, ADocumentThatIsNotExactlyRightIsRefusedWithThePlace) {
  const struct {
    const char* document;
    const char* expected;
  } cases[] = {
      {"", "not JSON"},
      {"[]", "the document: must be an object"},
      {"{}", "has no mode"},
      {R"({"mode":"open"})", "/mode: must be"},
      {R"({"mode":1})", "/mode: must be text"},
      {R"({"mode":"list"})", "without anything allowed"},
      {R"({"mode":"list","allow":[]})", "without anything allowed"},
      {R"({"mode":"none","mode":"public"})", "appears twice"},
      {R"({"mode":"none","alow":[]})", "/alow: unknown key; did you mean \"allow\"?"},
      {R"({"mode":"none","a/b":1})", "/a~1b: unknown key"},
      {R"({"mode":"none","allow":{}})", "/allow: must be a list"},
      {R"({"mode":"none","allow":["example.com"]})", "/allow/0: must be an object"},
      {R"({"mode":"none","allow":[{}]})", "/allow/0: has no host"},
      {R"({"mode":"none","allow":[{"host":"a.com","port":443}]})", "did you mean \"ports\""},
      {R"({"mode":"none","allow":[{"host":"a.com","ports":443}]})",
       "/allow/0/ports: must be a list"},
      {R"({"mode":"none","allow":[{"host":"a.com","ports":[]}]})", "/allow/0/ports: is empty"},
      {R"({"mode":"none","allow":[{"host":"a.com","ports":[0]}]})", "/allow/0/ports/0: "},
      {R"({"mode":"none","allow":[{"host":"a.com","ports":[65536]}]})", "/allow/0/ports/0: "},
      {R"({"mode":"none","allow":[{"host":"a.com","ports":[443.5]}]})", "/allow/0/ports/0: "},
      {R"({"mode":"none","allow":[{"host":"a.com","ports":[-1]}]})", "/allow/0/ports/0: "},
      {R"({"mode":"none","allow":[{"host":"a.com","methods":["get"]}]})", "in capitals"},
      {R"({"mode":"none","allow":[{"host":"a.com","methods":[]}]})", "/methods: is empty"},
      {R"({"mode":"none","allow":[{"host":"a.com","paths":["repos/*"]}]})", "/paths/0: "},
      {R"({"mode":"none","allow":[{"host":"a.com","inspect":"yes"}]})", "true or false"},
      {R"({"mode":"none","allow":[{"host":"a.com","tcp":true,"inspect":true}]})", "/tcp: "},
      {R"({"mode":"none","allow":[{"host":"https://a.com"}]})", "no scheme"},
      {R"({"mode":"none","allow":[{"host":"a.com:443"}]})", "no scheme, port"},
      {R"({"mode":"none","allow":[{"host":"bücher.example"}]})", "xn--"},
      {R"({"mode":"none","allow":[{"host":"gateway.pons.internal"}]})", "reserved"},
      {R"({"mode":"none","allow":[{"host":"*.pons.internal"}]})", "reserved"},
      {R"({"mode":"none","allow":[{"host":"localhost"}]})", "the sandbox itself"},
      {R"({"mode":"list","allow":[{"host":"*"}]})", "mode public"},
      {R"({"mode":"none","allow":[{"host":"a.com","addresses":["10.1.0.1/16"]}]})", "/addresses/0"},
      {R"({"mode":"none","services":["githab"]})", "/services/0: not known; there are github"},
      {R"({"mode":"none","packages":["gem"]})", "/packages/0: not known; there are apt"},
      {R"({"mode":"none","packages":["cargo"]})", "names no host"},
      {R"({"mode":"none","credentials":["A B"]})", "/credentials/0: "},
      {R"({"mode":"none","limits":{"connections":0}})", "/limits/connections: "},
      {R"({"mode":"none","limits":{"bytes":1}})", "/limits/bytes: unknown key"},
      {R"({"mode":"public","deny":["*"]})", "/deny/0: "},
      {R"({"mode":"public","allow":[{"host":"*","addresses":["10.0.0.0/8"]}]})", "name the host"},
  };
  for (const auto& [document, expected] : cases)
    EXPECT_THAT(refusal(document), HasSubstr(expected)) << document;
  EXPECT_THAT(refusal(std::string(2 << 20, ' ')), HasSubstr("bytes"));
}

TEST(PolicyTest, PrivateAddressesNeedARuleThatNamesThem) {
  const auto plain = compile(allowing(R"({"host":"db.example.com"})"));
  const auto opened = compile(
      allowing(R"({"host":"db.example.com","addresses":["10.1.0.0/16","0.0.0.0/0","::/0"]})"));
  const auto judge = [](const Policy& policy, const char* text) {
    return policy.judge_address(name("db.example.com"), 443, address(text)).allowed();
  };
  EXPECT_TRUE(judge(*plain, "93.184.216.34"));
  for (const char* text : {"10.1.2.3", "127.0.0.1", "::1", "192.168.0.1", "::ffff:10.1.2.3",
                           "64:ff9b::10.1.2.3", "169.254.1.1", "fd00::1"})
    EXPECT_FALSE(judge(*plain, text)) << text;
  EXPECT_TRUE(judge(*opened, "10.1.2.3"));
  for (const char* text :
       {"169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200", "169.254.170.2",
        "192.0.0.192", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "0.0.0.0", "::", "224.0.0.1",
        "198.18.0.5", "fd50:6f6e:7300::5", "255.255.255.255"})
    EXPECT_FALSE(judge(*opened, text)) << text;
}

TEST(PolicyTest, AddressesOfARuleAreTheOnlyOnesItsNameMayHave) {
  const auto policy = compile(allowing(R"({"host":"db.example.com","addresses":["10.1.0.0/16"]})"));
  const auto judge = [&](const char* text) {
    return policy->judge_address(name("db.example.com"), 443, address(text)).reason;
  };
  EXPECT_EQ(judge("10.1.255.255"), Reason::kAllowed);
  EXPECT_EQ(judge("10.2.0.0"), Reason::kAddressNotAllowed);
  EXPECT_EQ(judge("93.184.216.34"), Reason::kAddressNotAllowed);
}

TEST(PolicyTest, MetadataCannotBeWrittenIntoARule) {
  for (const char* rule : {R"({"host":"a.com","addresses":["169.254.169.254"]})",
                           R"({"host":"a.com","addresses":["169.254.169.0/24"]})",
                           R"({"host":"169.254.169.254","addresses":["0.0.0.0/0"]})",
                           R"({"host":"fd00:ec2::254"})", R"({"host":"::ffff:169.254.169.254"})",
                           R"({"host":"198.18.0.1"})", R"({"host":"0.0.0.0"})"})
    EXPECT_THAT(refusal(allowing(rule)), HasSubstr("no rule opens it")) << rule;
}

TEST(PolicyTest, AnAddressIsReachedOnlyByARuleForThatAddress) {
  const auto policy = compile(
      R"({"mode":"list","allow":[{"host":"8.8.8.8"},{"host":"10.0.0.5","addresses":["10.0.0.5"]}]})");
  EXPECT_EQ(connects(*policy, "8.8.8.8"), Reason::kAllowed);
  EXPECT_EQ(connects(*policy, "[::ffff:8.8.8.8]"), Reason::kAllowed);
  EXPECT_EQ(connects(*policy, "8.8.4.4"), Reason::kHostNotAllowed);
  EXPECT_EQ(connects(*policy, "10.0.0.5"), Reason::kAllowed);
  EXPECT_THAT(refusal(allowing(R"({"host":"10.0.0.5"})")), HasSubstr("name it in addresses"));
}

TEST(PolicyTest, PublicModeReachesPublicAddressesAndNothingElse) {
  const auto policy =
      compile(R"({"mode":"public","deny":["evil.com","*.evil.com","8.8.4.0/24","64:ff9b::/96"]})");
  EXPECT_EQ(connects(*policy, "anything.example"), Reason::kAllowed);
  EXPECT_EQ(connects(*policy, "8.8.8.8"), Reason::kAllowed);
  EXPECT_EQ(connects(*policy, "anything.example", 25), Reason::kPortNotAllowed);
  EXPECT_EQ(connects(*policy, "8.8.8.8", 25), Reason::kPortNotAllowed);
  EXPECT_EQ(connects(*policy, "intranet"), Reason::kHostNotAllowed);
  for (const char* host :
       {"evil.com", "a.evil.com", "a.b.evil.com", "8.8.4.4", "::ffff:8.8.4.4", "64:ff9b::1.1.1.1"})
    EXPECT_EQ(connects(*policy, host), Reason::kHostDenied) << host;
  for (const char* host : {"127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "::", "::1",
                           "198.18.0.1", "::ffff:127.0.0.1"})
    EXPECT_EQ(connects(*policy, host), Reason::kAddressNotAllowed) << host;
  const auto resolved = [&](const char* text) {
    return policy->judge_address(name("rebind.example"), 443, address(text)).reason;
  };
  EXPECT_EQ(resolved("93.184.216.34"), Reason::kAllowed);
  EXPECT_EQ(resolved("10.0.0.1"), Reason::kAddressNotAllowed);
  EXPECT_EQ(resolved("8.8.4.4"), Reason::kAddressNotAllowed);
}

TEST(PolicyTest, InPublicModeAHostThatIsNamedIsUnderItsRules) {
  const auto policy =
      compile(R"({"mode":"public","allow":[{"host":"api.example.com","methods":["GET"]},
      {"host":"*","ports":[443,22],"tcp":true}]})");
  EXPECT_EQ(requests(*policy, "api.example.com", "POST", "/"), Reason::kMethodNotAllowed);
  EXPECT_EQ(connects(*policy, "api.example.com", 22), Reason::kPortNotAllowed);
  EXPECT_EQ(connects(*policy, "other.example.com", 22), Reason::kAllowed);
  EXPECT_TRUE(policy->allows_opaque(name("other.example.com"), 22));
  EXPECT_FALSE(policy->allows_opaque(name("api.example.com"), 443));
}

TEST(PolicyTest, DenialsBeatEveryRule) {
  const auto policy = compile(
      R"({"mode":"list","allow":[{"host":"a.example.com"}],"deny":["*.example.com","93.184.0.0/16"]})");
  EXPECT_EQ(connects(*policy, "a.example.com"), Reason::kHostDenied);
  EXPECT_EQ(policy->judge_connect(name("a.example.com"), 443).rule, "deny/0");
}

TEST(PolicyTest, MethodsAndPathsOfSeveralRulesAddUp) {
  const auto policy = compile(R"({"mode":"list","allow":[
      {"host":"api.example.com","methods":["GET"],"paths":["/repos/acme/*"]},
      {"host":"api.example.com","methods":["POST"],"paths":["/graphql"]}]})");
  EXPECT_EQ(requests(*policy, "api.example.com", "GET", "/repos/acme/x?y=/z"), Reason::kAllowed);
  EXPECT_EQ(requests(*policy, "api.example.com", "POST", "/graphql"), Reason::kAllowed);
  EXPECT_EQ(requests(*policy, "api.example.com", "GET", "/graphql"), Reason::kPathNotAllowed);
  EXPECT_EQ(requests(*policy, "api.example.com", "PUT", "/graphql"), Reason::kMethodNotAllowed);
  EXPECT_EQ(requests(*policy, "api.example.com", "get", "/repos/acme/x"),
            Reason::kMethodNotAllowed);
  for (const char* target : {"/repos/acme/..%2fevil", "/repos/acme/%2e%2e", "/repos//acme/x",
                             "/repos/acme/x\\y", "/repos/acme/%00", "repos/acme/x"})
    EXPECT_EQ(requests(*policy, "api.example.com", "GET", target), Reason::kPathAmbiguous)
        << target;
  EXPECT_EQ(policy->judge_request(name("api.example.com"), 443, "POST", "/graphql").rule,
            "allow/1");
  EXPECT_TRUE(policy->needs_inspection(name("api.example.com"), 443));
}

TEST(PolicyTest, AHostWithoutPathRulesTakesAnyPath) {
  const auto policy = compile(R"({"mode":"list","packages":["npm"]})");
  EXPECT_EQ(requests(*policy, "registry.npm.example", "GET", "/@types%2fnode"), Reason::kAllowed);
  EXPECT_EQ(requests(*policy, "registry.npm.example", "PUT", "/@types%2fnode"),
            Reason::kMethodNotAllowed);
  EXPECT_EQ(requests(*policy, "registry.npm.example", "POST", "/-/npm/v1/security/audits/quick"),
            Reason::kAllowed);
  EXPECT_EQ(requests(*policy, "registry.npm.example", "POST", "/evil"), Reason::kPathNotAllowed);
}

TEST(PolicyTest, OpaqueBytesNeedARuleThatSaysSoAndNoRuleThatInspects) {
  const auto policy =
      compile(R"({"mode":"list","allow":[{"host":"db.example.com","ports":[5432],"tcp":true},
      {"host":"a.example.com","tcp":true},{"host":"*.example.com","methods":["GET"]}]})");
  EXPECT_TRUE(policy->allows_opaque(name("db.example.com"), 5432));
  EXPECT_FALSE(policy->allows_opaque(name("db.example.com"), 443));
  EXPECT_FALSE(policy->allows_opaque(name("a.example.com"), 443));
  EXPECT_FALSE(policy->needs_inspection(name("db.example.com"), 5432));
}

TEST(PolicyTest, OwnNamesAreThereInEveryModeAndNeverDialled) {
  for (const auto& policy : {Policy::closed(1), compile(R"({"mode":"public"})"),
                             compile(R"({"mode":"public","deny":["*.internal"]})")}) {
    for (const char* own : {"gateway.pons.internal", "TOOLS.pons.internal."}) {
      EXPECT_TRUE(policy->judge_name(name(own)).allowed());
      EXPECT_EQ(connects(*policy, own, 80), Reason::kAllowed);
      EXPECT_EQ(connects(*policy, own, 22), Reason::kPortNotAllowed);
      EXPECT_EQ(requests(*policy, own, "POST", "/v1/messages"), Reason::kAllowed);
      EXPECT_FALSE(policy->judge_address(name(own), 443, address("8.8.8.8")).allowed());
    }
    for (const char* other : {"pons.internal", "evil.pons.internal", "a.gateway.pons.internal"})
      EXPECT_FALSE(policy->judge_name(name(other)).allowed()) << other;
  }
}

TEST(PolicyTest, TheGatewayIsToldStoriesWithStubsInThem) {
  for (const char* document : {R"({"mode":"none"})", R"({"mode":"public"})"}) {
    const auto policy = compile(document);
    const auto tolerates = [&](std::string_view host) {
      return policy->tolerates_stubs(parse_destination(host).value(), 443);
    };
    EXPECT_TRUE(tolerates("gateway.pons.internal"));
    EXPECT_FALSE(tolerates("tools.pons.internal"));
    EXPECT_FALSE(tolerates("example.org"));
  }
}

TEST(PolicyTest, PackageHostsAreForFetchingOnly) {
  const auto policy = compile(R"({"mode":"list","packages":["apt"]})");
  const auto judge = [&](std::string_view method, std::uint16_t port) {
    return policy->judge_request(name("deb.example.org"), port, method, "/debian/x");
  };
  EXPECT_TRUE(judge("GET", 80).allowed());
  EXPECT_EQ(judge("GET", 80).rule, "package apt");
  EXPECT_TRUE(judge("HEAD", 80).allowed());
  EXPECT_EQ(judge("POST", 80).reason, Reason::kMethodNotAllowed);
  EXPECT_EQ(judge("GET", 443).reason, Reason::kPortNotAllowed);
}

TEST(PolicyTest, AServiceDoesNotPublishUnlessTheDocumentSaysSo) {
  const auto plain =
      compile(R"({"mode":"list","services":["github","gitlab","openai","anthropic","slack"]})");
  const struct {
    const char *host, *method, *target;
  } refused[] = {{"api.github.com", "POST", "/gists"},
                 {"api.github.com", "POST", "/user/repos"},
                 {"api.github.com", "POST", "/orgs/acme/repos"},
                 {"api.github.com", "POST", "/repos/acme/x/forks"},
                 {"api.github.com", "PUT", "/repos/acme/x/collaborators/evil"},
                 {"api.github.com", "PUT", "/repos/acme/x/actions/secrets/A"},
                 {"api.github.com", "PUT", "/repos/acme/x/contents/.github/workflows/a.yml"},
                 {"api.github.com", "POST", "/repos/acme/x/actions/workflows/1/dispatches"},
                 {"api.github.com", "POST", "/repos/acme/x/keys"},
                 {"api.github.com", "POST", "/repos/acme/x/hooks"},
                 {"api.github.com", "POST", "/graphql"},
                 {"gitlab.com", "POST", "/api/v4/snippets"},
                 {"gitlab.com", "POST", "/api/v4/projects"},
                 {"gitlab.com", "POST", "/api/v4/projects/1/variables"},
                 {"api.anthropic.com", "POST", "/v1/files"},
                 {"api.anthropic.com", "GET", "/v1/organizations/api_keys"},
                 {"api.openai.com", "POST", "/v1/files"},
                 {"slack.com", "POST", "/api/files.upload"}};
  for (const auto& [host, method, target] : refused)
    EXPECT_NE(requests(*plain, host, method, target), Reason::kAllowed) << host << target;
  EXPECT_EQ(connects(*plain, "gist.github.com"), Reason::kHostNotAllowed);
  const struct {
    const char *host, *method, *target;
  } allowed[] = {{"api.github.com", "GET", "/repos/acme/x/contents/README.md"},
                 {"api.github.com", "POST", "/repos/acme/x/issues"},
                 {"api.github.com", "POST", "/repos/acme/x/pulls"},
                 {"github.com", "GET", "/acme/x.git/info/refs?service=git-upload-pack"},
                 {"github.com", "POST", "/acme/x.git/git-receive-pack"},
                 {"gitlab.com", "GET", "/api/v4/projects/acme%2Fx"},
                 {"api.anthropic.com", "POST", "/v1/messages?beta=true"},
                 {"api.openai.com", "POST", "/v1/responses"},
                 {"slack.com", "POST", "/api/chat.postMessage"}};
  for (const auto& [host, method, target] : allowed)
    EXPECT_EQ(requests(*plain, host, method, target), Reason::kAllowed) << host << target;
  EXPECT_EQ(plain->judge_connect(name("github.com"), 443).rule, "service github");

  const auto wider = compile(
      R"({"mode":"list","services":["github"],"allow":[{"host":"api.github.com","methods":["POST"],"paths":["/gists"]}]})");
  EXPECT_EQ(requests(*wider, "api.github.com", "POST", "/gists"), Reason::kAllowed);
  EXPECT_EQ(requests(*wider, "api.github.com", "POST", "/user/repos"), Reason::kPathNotAllowed);
}

TEST(PolicyTest, LimitsAndCredentialsAreKept) {
  const auto policy = compile(
      R"({"mode":"none","credentials":["GITHUB_TOKEN"],"limits":{"connections":8,"bytes_out":1000}})");
  EXPECT_EQ(policy->credentials(), std::vector<std::string>{"GITHUB_TOKEN"});
  EXPECT_EQ(policy->limits().connections, 8U);
  EXPECT_EQ(policy->limits().requests, 0U);
  EXPECT_EQ(policy->limits().bytes_out, 1000U);
  EXPECT_EQ(Policy::closed(1)->limits().connections, 256U);
}

TEST(PolicyTest, WhatIsPreferredIsAllowedWhateverIsDenied) {
  const auto policy = compile(
      R"({"mode":"public","prefer":"allow","allow":[{"host":"8.8.8.8"},{"host":"named.example"}],
          "allow_ranges":["9.9.9.0/28"],"deny":["8.8.8.0/24","9.9.9.0/24"]})");
  EXPECT_EQ(connects(*policy, "8.8.8.8"), Reason::kAllowed);
  EXPECT_EQ(connects(*policy, "8.8.8.9"), Reason::kHostDenied);
  EXPECT_EQ(connects(*policy, "9.9.9.9"), Reason::kAllowed);
  EXPECT_EQ(connects(*policy, "9.9.9.99"), Reason::kHostDenied);
  const auto at = [&](const char* host, const char* ip) {
    return policy->judge_address(name(host), 443, address(ip)).reason;
  };
  EXPECT_EQ(at("named.example", "8.8.8.9"), Reason::kAllowed);
  EXPECT_EQ(at("other.example", "8.8.8.9"), Reason::kAddressNotAllowed);
  EXPECT_EQ(at("other.example", "9.9.9.9"), Reason::kAllowed);
  EXPECT_EQ(at("named.example", "10.0.0.1"), Reason::kAddressNotAllowed);
  const auto strict =
      compile(R"({"mode":"public","allow":[{"host":"8.8.8.8"}],"deny":["8.8.8.0/24"]})");
  EXPECT_EQ(connects(*strict, "8.8.8.8"), Reason::kHostDenied);
}

TEST(PolicyTest, ARangeOpensPublicAddressesOnly) {
  const auto policy = compile(R"({"mode":"list","allow_ranges":["0.0.0.0/0","1.2.3.0/24"]})");
  EXPECT_EQ(connects(*policy, "1.2.3.4"), Reason::kAllowed);
  for (const char* host : {"10.1.2.3", "127.0.0.1", "169.254.169.254", "192.168.1.1", "0.0.0.0"})
    EXPECT_NE(connects(*policy, host), Reason::kAllowed) << host;
  EXPECT_EQ(policy->judge_name(name("some.example")).reason, Reason::kHostNotAllowed);
  for (const char* range : {"10.0.0.0/8", "192.168.0.0/16", "127.0.0.1", "169.254.169.254/32"})
    EXPECT_THAT(refusal(R"({"mode":"list","allow_ranges":[")" + std::string(range) + R"("]})"),
                HasSubstr("no range opens it"));
}

TEST(PolicyTest, FieldsAreForNamesAndSayNothingOfTheConnection) {
  const auto setting = [](const std::string& host, const std::string& field,
                          const std::string& value) {
    return refusal(R"({"mode":"public","fields":[{"host":")" + host + R"(","set":{")" + field +
                   R"(":")" + value + R"("}}]})");
  };
  EXPECT_EQ(setting("a.example", "X-Key", "${e2b.secrets.a-b c} and ${HOME}"), "accepted");
  EXPECT_EQ(setting("*.a.example", "Authorization", "x"), "accepted");
  EXPECT_EQ(setting("*.com", "Authorization", "x"), "accepted");
  for (const char* field : {"Host", "Connection", "Content-Length", "X-Forwarded-For", "a b", ""})
    EXPECT_THAT(setting("a.example", field, "x"), HasSubstr("not for rules")) << field;
  for (const char* value : {"${e2b.identity.tokens.t}", "${e2b.secrets.", "${e2b.secrets.}"})
    EXPECT_NE(setting("a.example", "X", value), "accepted") << value;
  EXPECT_NE(setting("a.example", "X", "a\\r\\nb"), "accepted");
  for (const char* host :
       {"1.2.3.4", "*", "pons.internal", "*.pons.internal", "a.*.com", "1.0.0.0/8"})
    EXPECT_NE(setting(host, "X", "x"), "accepted") << host;
}

TEST(PolicyTest, TheClosestPatternAloneSaysWhichFieldsAreSet) {
  const auto policy = compile(R"({"mode":"public","project":"p","fields":[
      {"host":"*.ex.com","set":{"A":"wild","B":"wild"}},
      {"host":"*.deep.ex.com","set":{"A":"deeper"}},
      {"host":"api.ex.com","set":{"A":"first"}},
      {"host":"API.ex.com","set":{"C":"second"}},
      {"host":"bare.ex.com","set":{}},
      {"host":"*.internal","set":{"A":"ours"}},
      {"host":"*.com","set":{"A":"all"}}]})");
  const auto set = [&](std::string_view host) {
    std::string text;
    for (const FieldRule* rule : policy->fields_for(parse_destination(host).value()))
      text += rule->name + "=" + rule->parts.front().text + " ";
    return text;
  };
  EXPECT_EQ(set("api.ex.com"), "a=first c=second ");
  EXPECT_EQ(set("x.ex.com"), "a=wild b=wild ");
  EXPECT_EQ(set("x.y.ex.com"), "a=wild b=wild ");
  EXPECT_EQ(set("x.api.ex.com"), "a=wild b=wild ");
  EXPECT_EQ(set("deep.ex.com"), "a=wild b=wild ");
  EXPECT_EQ(set("x.deep.ex.com"), "a=deeper ");
  EXPECT_EQ(set("bare.ex.com"), "");
  EXPECT_FALSE(policy->needs_inspection(parse_destination("bare.ex.com").value(), 443));
  EXPECT_EQ(set("ex.com"), "a=all ");
  EXPECT_EQ(set("a.b.c.com"), "a=all ");
  EXPECT_EQ(set("com"), "");
  EXPECT_EQ(set("gateway.pons.internal"), "");
  EXPECT_EQ(set("x.internal"), "a=ours ");
  EXPECT_EQ(set("1.2.3.4"), "");
}

// ---- what a person allows beside the rules

std::shared_ptr<const Policy> widened(const std::shared_ptr<const Policy>& policy,
                                      std::string_view host, std::uint16_t port = 443,
                                      std::vector<std::string> methods = {}) {
  EXPECT_EQ(policy->find_obstacle(parse_destination(host).value()), "");
  return policy->widened(name(host), port, std::move(methods), "person acc_1");
}

constexpr const char* kSomething = R"({"mode":"list","allow":[{"host":"a.example.com"}]})";

TEST(PolicyTest, APersonAllowsOneNameOnOnePort) {
  const auto before = compile(allowing(R"({"host":"a.example.com"})"));
  const auto policy = widened(before, "b.example.com", 8443);
  EXPECT_EQ(connects(*policy, "b.example.com", 8443), Reason::kAllowed);
  EXPECT_EQ(policy->judge_connect(parse_destination("b.example.com").value(), 8443).rule,
            "person acc_1");
  EXPECT_EQ(connects(*policy, "b.example.com", 443), Reason::kPortNotAllowed);
  EXPECT_EQ(connects(*policy, "c.example.com", 8443), Reason::kHostNotAllowed);
  EXPECT_EQ(connects(*policy, "c.b.example.com", 8443), Reason::kHostNotAllowed);
  EXPECT_EQ(connects(*policy, "a.example.com"), Reason::kAllowed);
  EXPECT_EQ(policy->generation(), before->generation()) << "what is under way goes on";
  EXPECT_EQ(connects(*before, "b.example.com", 8443), Reason::kHostNotAllowed);
}

TEST(PolicyTest, APersonsWordLeadsToPublicAddressesOnly) {
  const auto policy = widened(compile(kSomething), "b.example.com");
  const Destination host = parse_destination("b.example.com").value();
  EXPECT_TRUE(policy->judge_address(host, 443, address("93.184.216.34")).allowed());
  for (const char* inside : {"127.0.0.1", "10.1.2.3", "192.168.1.1", "169.254.169.254", "::1"})
    EXPECT_EQ(policy->judge_address(host, 443, address(inside)).reason, Reason::kAddressNotAllowed)
        << inside;
}

TEST(PolicyTest, APersonMayAllowSomeMethodsOnly) {
  const auto policy = widened(compile(allowing(R"({"host":"b.example.com","methods":["GET"]})")),
                              "b.example.com", 443, {"PUT"});
  EXPECT_EQ(requests(*policy, "b.example.com", "GET", "/"), Reason::kAllowed);
  EXPECT_EQ(requests(*policy, "b.example.com", "PUT", "/"), Reason::kAllowed);
  EXPECT_EQ(requests(*policy, "b.example.com", "POST", "/"), Reason::kMethodNotAllowed);
  EXPECT_TRUE(policy->needs_inspection(parse_destination("b.example.com").value(), 443));
}

TEST(PolicyTest, WhatAnythingMayReachStaysReached) {
  const auto policy = widened(compile(R"({"mode":"public"})"), "b.example.com", 8443);
  EXPECT_EQ(connects(*policy, "b.example.com", 8443), Reason::kAllowed);
  EXPECT_EQ(connects(*policy, "b.example.com", 443), Reason::kAllowed);
  EXPECT_EQ(connects(*policy, "c.example.com", 443), Reason::kAllowed);
  EXPECT_EQ(connects(*policy, "c.example.com", 8443), Reason::kPortNotAllowed);
}

TEST(PolicyTest, APersonsWordStandsAboveNoDenial) {
  const auto policy = compile(
      R"({"mode":"list","prefer":"allow","allow":[{"host":"a.example.com"}],"deny":["*.example.com","93.184.216.0/24"]})");
  EXPECT_NE(policy->find_obstacle(parse_destination("b.example.com").value()), "");
  const auto other = widened(policy, "b.example.net");
  EXPECT_EQ(
      other
          ->judge_address(parse_destination("b.example.net").value(), 443, address("93.184.216.34"))
          .reason,
      Reason::kAddressNotAllowed)
      << "the document does not name it, so that what it denies stays denied";
}

TEST(PolicyTest, SomeThingsNobodysWordOpens) {
  const auto obstacle = [](std::string_view document, std::string_view host) {
    return compile(document)->find_obstacle(parse_destination(host).value());
  };
  EXPECT_THAT(obstacle(R"({"mode":"none"})", "b.example.com"), HasSubstr("no network"));
  EXPECT_THAT(obstacle(kSomething, "93.184.216.34"), HasSubstr("address"));
  EXPECT_THAT(obstacle(kSomething, "10.0.0.1"), HasSubstr("address"));
  EXPECT_THAT(obstacle(kSomething, "gateway.pons.internal"), HasSubstr("Pons"));
  EXPECT_THAT(obstacle(kSomething, "intranet"), HasSubstr("one label"));
  EXPECT_THAT(
      obstacle(allowing(R"({"host":"b.example.com","paths":["/mine/**"]})"), "b.example.com"),
      HasSubstr("paths"));
  EXPECT_THAT(obstacle(R"({"mode":"list","allow":[{"host":"a.example.com"}],"project":"p","fields":[
                {"host":"b.example.com","set":{"X-A":"${e2b.secrets.key}"}}]})",
                       "b.example.com"),
              HasSubstr("fields"));
}

}  // namespace
}  // namespace pons::egress
