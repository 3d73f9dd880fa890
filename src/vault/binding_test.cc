#include "pons/vault/binding.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "vault_fixture.h"

namespace pons::vault {
namespace {

using ::testing::HasSubstr;

Binding binding(std::string_view text) {
  auto parsed = parse_binding_text(text);
  EXPECT_TRUE(parsed) << text << ": " << parsed.error().describe();
  return std::move(*parsed);
}

std::string swapped(std::string_view format, std::string_view sent) {
  const auto swapped = Format::parse(format)->swap(sent, "STUB", "VALUE");
  return swapped ? swapped->sent : "(not swapped)";
}

bool swaps(std::string_view format, std::string_view sent) {
  return Format::parse(format)->swap(sent, "STUB", "VALUE").has_value();
}

TEST(BindingTest, DefaultsAreHttpsAndABearerToken) {
  const Binding plain = binding("host=API.Example.com");
  EXPECT_EQ(plain.host, "api.example.com");
  EXPECT_EQ(plain.ports, std::vector<std::uint16_t>{443});
  EXPECT_EQ(plain.position, Position::kHeader);
  EXPECT_EQ(plain.name, "authorization");
  EXPECT_EQ(plain.format.text(), "Bearer {}");
  EXPECT_EQ(binding("host=a.example.com,header=X-Key").format.text(), "{}");
}

TEST(BindingTest, TextAndJsonSayTheSame) {
  const Binding text = binding(
      "host=*.example.com, port=443,port=8443,method=GET,method=POST,path=/a/*/b,path=/c/**,"
      "header=X-Key,format=token {}");
  const auto json =
      parse_json(R"({"host":"*.example.com","ports":[443,8443],"methods":["GET","POST"],)"
                 R"("paths":["/a/*/b","/c/**"],"name":"x-key","format":"token {}"})");
  EXPECT_EQ(*parse_binding(*json), text);
  EXPECT_EQ(*parse_binding(to_json(text)), text);
  EXPECT_EQ(binding("host=a.example.com,query=key").position, Position::kQuery);
  for (const char* written : {"host=a.example.com,position=body", "host=a.example.com,body=secret",
                              "host=a.example.com,body=authorization"}) {
    const auto body = parse_binding_text(written);
    ASSERT_TRUE(body) << written;
    EXPECT_EQ(body->position, Position::kBody);
    EXPECT_EQ(body->format.text(), "{}");
    EXPECT_EQ(*parse_binding(to_json(*body)), *body);
  }
  EXPECT_FALSE(parse_binding_text("host=a.example.com,body=secret,format=Bearer {}"));
  EXPECT_FALSE(parse_binding_text("host=a.example.com,body=a b"));
}

TEST(BindingTest, HostsThatCannotBeProvenOrBelongToManyAreRefused) {
  for (const char* host : {"",
                           ".",
                           "a",
                           "localhost",
                           "a..b",
                           ".a.com",
                           "a.com.",
                           "-a.com",
                           "a-.com",
                           "a_b.com",
                           "a b.com",
                           "a.com/x",
                           "a.com:443",
                           "user@a.com",
                           "1.2.3.4",
                           "127.1",
                           "0x7f.1",
                           "a.0x1",
                           "017700000001",
                           "[::1]",
                           "::1",
                           "*",
                           "*.",
                           "*.*",
                           "*.com",
                           "*.co.uk",
                           "*.github.io",
                           "*.vercel.app",
                           "*.s3.amazonaws.com",
                           "*.workers.dev",
                           "*.ngrok.app",
                           "*.hf.space",
                           "*.webhook.site",
                           "*.up.railway.app",
                           "*.blob.core.windows.net",
                           "*.table.core.windows.net",
                           "*.googleapis.com",
                           "*.execute-api.eu-west-1.amazonaws.com",
                           "*.10-0-0-1.nip.io",
                           "*.internal",
                           "a.*.com",
                           "*a.example.com",
                           "**.example.com",
                           "gateway.pons.internal",
                           "*.pons.internal",
                           "pons.internal",
                           "x.y.PONS.internal",
                           "b\xC3\xBC"
                           "cher.example",
                           "a\tb.com",
                           "evil.com\n"})
    EXPECT_FALSE(parse_binding(Json{{"host", host}})) << host;
  EXPECT_FALSE(parse_binding(Json{{"host", std::string("e.com\0.a.com", 12)}}));
  EXPECT_FALSE(parse_binding(Json{{"host", std::string(64, 'a') + ".com"}}));
  EXPECT_FALSE(parse_binding(Json{{"host", std::string(250, 'a') + ".com"}}));
  for (const char* host :
       {"a.com", "xn--bcher-kva.example", "*.example.com", "*.corp.internal", "github.io",
        "a1.b2.c3.example", "mine.blob.core.windows.net", "*.mine.webhook.site"})
    EXPECT_TRUE(parse_binding(Json{{"host", host}})) << host;
}

TEST(BindingTest, AWildcardStandsForExactlyOneLabel) {
  const Binding any = binding("host=*.example.com");
  EXPECT_TRUE(any.matches({.host = "api.example.com"}));
  for (const char* host : {"example.com", "a.b.example.com", "evil-example.com", ".example.com",
                           "example.com.evil.com", "apiexample.com", "api.example.com.", ""})
    EXPECT_FALSE(any.matches({.host = host})) << host;
}

TEST(BindingTest, PortMethodAndPathMustAllFit) {
  const Binding narrow = binding("host=a.example.com,port=8443,method=POST,path=/repos/acme/**");
  EXPECT_TRUE(narrow.matches(
      {.host = "a.example.com", .port = 8443, .method = "POST", .path = "/repos/acme/x/y"}));
  EXPECT_FALSE(narrow.matches(
      {.host = "a.example.com", .port = 443, .method = "POST", .path = "/repos/acme/x"}));
  EXPECT_FALSE(narrow.matches(
      {.host = "a.example.com", .port = 8443, .method = "GET", .path = "/repos/acme/x"}));
  EXPECT_FALSE(narrow.matches(
      {.host = "a.example.com", .port = 8443, .method = "post", .path = "/repos/acme/x"}));
  EXPECT_FALSE(narrow.matches(
      {.host = "a.example.com", .port = 8443, .method = "POST", .path = "/repos/evil/x"}));
  EXPECT_TRUE(narrow.matches_host("a.example.com", 8443));
  EXPECT_FALSE(narrow.matches_host("a.example.com", 443));
}

TEST(BindingTest, PathsThatReadersTakeApartDifferentlyMatchNoPattern) {
  const Binding below = binding("host=a.example.com,path=/acme/**");
  const auto matches = [&](std::string_view path) {
    return below.matches({.host = "a.example.com", .path = path});
  };
  for (const char* path :
       {"/acme/x", "/acme/", "/acme/x/y/", "/%61cme/x", "/acme/%78", "/acme/a%20b"})
    EXPECT_TRUE(matches(path)) << path;
  for (const char* path : {"/acme",
                           "/acme/../evil",
                           "/acme/%2e%2e/evil",
                           "/acme/.%2E/evil",
                           "/acme/./x",
                           "//acme/x",
                           "/acme//x",
                           "/acme%2fx",
                           "/x/acme/y",
                           "/acme/..;/evil",
                           "/acme/%5c..%5cevil",
                           "/acme/\\x",
                           "/acme/%00",
                           "/acme/%252e%252e/x",
                           "/acme/%",
                           "/acme/%zz",
                           "acme/x",
                           "",
                           "*",
                           "/ACME/x"})
    EXPECT_FALSE(matches(path)) << path;
  const Binding one = binding("host=a.example.com,path=/*/repo/push");
  EXPECT_TRUE(one.matches({.host = "a.example.com", .path = "/acme/repo/push"}));
  for (const char* path : {"//repo/push", "/a/b/repo/push", "/acme/repo/push/", "/acme/repo"})
    EXPECT_FALSE(one.matches({.host = "a.example.com", .path = path})) << path;
}

TEST(BindingTest, SenselessBindingsAreRefused) {
  for (const char* text : {"",
                           "host",
                           "host=a.example.com,host=b.example.com",
                           "port=443",
                           "host=a.example.com,colour=red",
                           "host=a.example.com,port=0",
                           "host=a.example.com,port=65536",
                           "host=a.example.com,port=-1",
                           "host=a.example.com,method=get",
                           "host=a.example.com,method=TRACE",
                           "host=a.example.com,method=CONNECT",
                           "host=a.example.com,header=Host",
                           "host=a.example.com,header=Content-Length",
                           "host=a.example.com,header=Transfer-Encoding",
                           "host=a.example.com,header=Proxy-Authorization",
                           "host=a.example.com,header=a b",
                           "host=a.example.com,query=",
                           "host=a.example.com,query=a&b",
                           "host=a.example.com,position=moon",
                           "host=a.example.com,position=query",
                           "host=a.example.com,header=x,position=body",
                           "host=a.example.com,path=relative",
                           "host=a.example.com,path=/a/../b",
                           "host=a.example.com,path=/a/**/b",
                           "host=a.example.com,path=/a*",
                           "host=a.example.com,format=Bearer",
                           "host=a.example.com,format={}{}",
                           "host=a.example.com,format=Basic {}",
                           "host=a.example.com,format=Basic a:b:{}"})
    EXPECT_FALSE(parse_binding_text(text)) << text;
  for (const char* text :
       {"7", "null", "[]", R"({"host":7})", R"({"host":"a.example.com","ports":["443"]})",
        R"({"host":"a.example.com","ports":[-1]})", R"({"host":"a.example.com","ports":443})",
        R"({"host":"a.example.com","methods":[1]})", R"({"host":"a.example.com","extra":1})",
        R"({"host":"a.example.com","format":"x\u0000{}"})",
        R"({"host":"a.example.com","format":"{}\r\nX: y"})"})
    EXPECT_FALSE(parse_binding(*parse_json(text))) << text;
  EXPECT_FALSE(parse_bindings(Json::array()));
  EXPECT_FALSE(parse_bindings(Json(std::vector<std::string>(65, "host=a.example.com"))));
}

// ---- formats

TEST(FormatTest, OnlyTheExactFormIsSwapped) {
  EXPECT_EQ(swapped("Bearer {}", "Bearer STUB"), "Bearer VALUE");
  EXPECT_EQ(swapped("Bearer {}", "bearer STUB"), "Bearer VALUE");
  EXPECT_EQ(swapped("{}", "STUB"), "VALUE");
  EXPECT_EQ(swapped("key={};v=1", "key=STUB;v=1"), "key=VALUE;v=1");
  for (const char* sent :
       {"", "STUB", "Bearer", "Bearer ", "Bearer  STUB", "Bearer STUB ", "BearerSTUB",
        "Bearer STUBSTUB", "Bearer xSTUB", "token STUB", "Bearer stub", "Bearer STUB, Bearer STUB"})
    EXPECT_FALSE(swaps("Bearer {}", sent)) << sent;
  EXPECT_FALSE(Format::parse("{}")->swap("", "", "VALUE")) << "an empty stub stands for nothing";
}

TEST(FormatTest, BasicIsTakenApartAndPutTogetherAgain) {
  const auto basic = [](std::string_view pair) { return "Basic " + base64_encode(pair); };
  EXPECT_EQ(swapped("Basic me:{}", basic("me:STUB")), basic("me:VALUE"));
  EXPECT_EQ(swapped("Basic *:{}", basic("who:STUB")), basic("who:VALUE"));
  EXPECT_EQ(swapped("Basic {}:*", basic("STUB:")), basic("VALUE:"));
  EXPECT_EQ(swapped("Basic {}:x-oauth-basic", basic("STUB:x-oauth-basic")),
            basic("VALUE:x-oauth-basic"));
  EXPECT_TRUE(swaps("Basic me:{}", "basic " + base64_encode("me:STUB")));
  EXPECT_EQ(Format::parse("Basic me:{}")->render("VALUE"), basic("me:VALUE"));
  EXPECT_EQ(Format::parse("Basic *:{}")->render("VALUE"), basic("x-access-token:VALUE"));
}

TEST(FormatTest, OddFormsOfBasicAreNotSwapped) {
  const std::string good = base64_encode("me:STUBx");  // ends in padding
  for (const std::string& sent :
       {"Basic  " + base64_encode("me:STUB"), "Basic " + base64_encode("me:STUB") + "=",
        "Basic " + base64_encode("other:STUB"), "Basic " + base64_encode("me:STUB\n"),
        "Basic " + base64_encode("STUB"), "Basic " + base64_encode("STUB:STUB"),
        "Basic " + base64_encode("me:xSTUB"), std::string("Basic me:STUB"), std::string("Basic "),
        "Bearer " + base64_encode("me:STUB")})
    EXPECT_FALSE(swaps("Basic me:{}", sent)) << sent;
  EXPECT_FALSE(swaps("Basic *:{}", "Basic " + base64_encode("STUB:STUB")));
  // Unpadded, and with unused bits set: other texts for the same bytes.
  std::string text = base64_encode("me:STUB");
  ASSERT_TRUE(text.ends_with("=="));
  EXPECT_FALSE(swaps("Basic me:{}", "Basic " + text.substr(0, text.size() - 2)));
  text[text.size() - 3] = static_cast<char>(text[text.size() - 3] + 1);
  EXPECT_FALSE(swaps("Basic me:{}", "Basic " + text));
}

TEST(FormatTest, BesideAStubNoOtherCredentialLeaves) {
  const auto basic = [](std::string_view pair) { return "Basic " + base64_encode(pair); };
  for (const char* pair : {"STUB:ghp_attackers_own", "STUB:x", "STUB:x-oauth-basic ", "STUB: "})
    EXPECT_FALSE(swaps("Basic {}:*", basic(pair))) << pair;
  EXPECT_EQ(swapped("Basic {}:*", basic("STUB:x-oauth-basic")), basic("VALUE:x-oauth-basic"));
  EXPECT_FALSE(swaps("Basic *:{}", basic("ghp_0123456789abcdefghij:STUB")));
  for (const char* user : {"", "git", "oauth2", "x-access-token", "sk-brown", "some.body@corp.com"})
    EXPECT_TRUE(swaps("Basic *:{}", basic(std::string(user) + ":STUB"))) << user;
  EXPECT_EQ(Format::parse("Basic *:{}")->swap(basic("who:STUB"), "STUB", "VALUE")->rest, "who")
      << "for whoever looks for what must not leave";
  EXPECT_EQ(Format::parse("Bearer {}")->swap("Bearer STUB", "STUB", "VALUE")->rest, "");
}

TEST(BindingTest, WhatStandsBesideAStubInAnyHeaderIsTold) {
  const auto swapped =
      binding("host=a.example.com,header=*").swap_header("a STUB b", "STUB", "VALUE");
  ASSERT_TRUE(swapped);
  EXPECT_EQ(swapped->sent, "a VALUE b");
  EXPECT_EQ(swapped->rest, "a \n b");
}

TEST(BindingTest, AnUnderscoreMakesNoOtherName) {
  EXPECT_TRUE(is_same_field_name("X-Api-Key", "x_api_key"));
  EXPECT_FALSE(is_same_field_name("x-api-key", "x-api-keys"));
  EXPECT_FALSE(binding("host=a.example.com,header=*").names_header("Content_Type"));
  EXPECT_FALSE(parse_binding(Json{{"host", "a.example.com"}, {"name", "x_forwarded_host"}}));
}

// ---- presets

TEST(PresetTest, EveryPresetIsValidAndNamesItsHosts) {
  EXPECT_THAT(preset_names(),
              ::testing::ElementsAre("anthropic", "github", "gitlab", "openai", "slack"));
  for (const std::string& name : preset_names()) EXPECT_TRUE(load_preset(name)) << name;
  const auto unknown = load_preset("githab");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("github"));
}

TEST(PresetTest, GithubReachesItsOwnHostsOnly) {
  Credential credential;
  credential.bindings = *load_preset("github");
  EXPECT_EQ(find_bindings(credential, {.host = "api.github.com"}).size(), 2U);
  EXPECT_NE(find_binding(credential, {.host = "github.com", .path = "/a/b/info/refs"}), nullptr);
  for (const char* host : {"gist.github.com", "raw.githubusercontent.com", "codeload.github.com",
                           "api.github.com.evil.com", "example.com"}) {
    EXPECT_EQ(find_binding(credential, {.host = host}), nullptr) << host;
    EXPECT_FALSE(is_bound_to(credential, host, 443)) << host;
  }
  EXPECT_EQ(find_binding(credential, {.host = "api.github.com", .port = 8443}), nullptr);
  EXPECT_FALSE(is_bound_to(credential, "api.github.com", 80));
}

TEST(CredentialParameters, AreTheUsualOnesAndThoseOfTheService) {
  const auto has = [](std::string_view host, std::string_view name,
                      Position position = Position::kQuery) {
    return std::ranges::count(credential_parameters(host, position), name) == 1;
  };
  for (const char* host : {"slack.com", "gitlab.com", "gitlab.corp.example"})
    for (const char* name : {"token", "private_token", "access_token", "job_token"})
      EXPECT_TRUE(has(host, name)) << host << " " << name;
  EXPECT_TRUE(has("maps.googleapis.com", "key"));
  EXPECT_FALSE(has("maps.googleapis.com", "key", Position::kBody)) << "a usual name of a member";
  EXPECT_TRUE(has("maps.googleapis.com", "token", Position::kBody));
  EXPECT_FALSE(has("evilgoogleapis.com", "key"));
  EXPECT_FALSE(has("api.github.com", "key"));
}

}  // namespace
}  // namespace pons::vault
