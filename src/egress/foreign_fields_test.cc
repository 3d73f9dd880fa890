#include "foreign_fields.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "raw_relay_fixture.h"

namespace pons::egress {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kForm = "application/x-www-form-urlencoded";
constexpr std::string_view kParts = "multipart/form-data; boundary=b";

std::string part(std::string_view disposition) {
  return fmt::format("--b\r\nContent-Disposition: {}\r\n\r\nvalue\r\n--b--\r\n", disposition);
}

bool is_found(std::string_view type, std::string_view body, std::size_t step) {
  http::RequestHead head;
  if (!type.empty()) head.fields.push_back({"Content-Type", type});
  ForeignFields fields(head, {"token", "private_token"});
  bool found = false;
  for (std::size_t at = 0; at < body.size(); at += step) found = fields.feed(body.substr(at, step));
  return found;
}

// The same whole and in pieces.
bool is_found(std::string_view type, std::string_view body) {
  const bool whole = is_found(type, body, body.size());
  for (const std::size_t step : {1, 2, 7}) EXPECT_EQ(is_found(type, body, step), whole) << body;
  return whole;
}

TEST(ForeignFields, ANameIsFoundHoweverItIsWritten) {
  for (const char* body : {"token=x", "a=b&token=x", "a&TOKEN=x", "%74oken=x", "token[]=x",
                           "token%5B0%5D=x", "+token=x", "private_token=x&a=b", "a=token&token=",
                           "token[\xff\x01]=x", "token%5B\xff=x", "\xff\xfe\xfd\xfc\xfb=1&token=x",
                           "\t%20token=x", "aaaaaaaa;token=x", "aaaaaaaaaaaaaaaaaaaaaaa&%74oken=x"})
    EXPECT_TRUE(is_found(kForm, body)) << body;
  for (const char* body : {R"({"token":"x"})", R"( {"a":{"b":[1]},"token" : 1})",
                           R"({"tok\u0065n":"x"})", R"({"a":"\"","Token":"x"})",
                           R"({"a":"}","private_token":null})", "\xEF\xBB\xBF{\"token\":1}"})
    for (const std::string_view type : {"application/json", "text/plain", ""})
      EXPECT_TRUE(is_found(type, body)) << body;
  for (const char* disposition :
       {R"(form-data; name="token")", "form-data; name=token", R"(form-data; NAME="To\ken")",
        R"(form-data; filename="a;b\"; name=c"; name="token[]")", "form-data;\r\n name=\"token\"",
        R"(form-data; name="a"; name*=utf-8''token)"})
    EXPECT_TRUE(is_found(kParts, part(disposition))) << disposition;
  EXPECT_TRUE(
      is_found(kParts, part("form-data; a=\"" + std::string(5000, 'x') + "\"; name=token")));
}

TEST(ForeignFields, ANameOutsideOfAsciiIsFoundAsWell) {
  http::RequestHead head;
  ForeignFields fields(head, {"clef\xc3\xa9"});
  EXPECT_TRUE(fields.feed("a=b&clef%c3%a9=x&clef\xc3\xa9=x"));
}

TEST(ForeignFields, OtherNamesAndValuesAreNot) {
  for (const char* body : {"a=token", "tokens=x", "a=b%26token=x", "page_token=x", "token",
                           "\xfftoken=x", "token\xff=x", "a=\xff&\x01token=x"})
    EXPECT_FALSE(is_found(kForm, body)) << body;
  for (const char* body :
       {R"({"a":"token"})", R"({"a":{"token":"x"}})", R"({"a":"\"token\":1"})",
        R"({"a":["token"]})", R"([{"token":"x"}])", R"("token":1)", R"({"max_tokens":1})"})
    EXPECT_FALSE(is_found("application/json", body)) << body;
  for (const char* disposition : {R"(form-data; name="a"; filename="token")", "form-data"})
    EXPECT_FALSE(is_found(kParts, part(disposition))) << disposition;
  EXPECT_FALSE(is_found("application/octet-stream", "token=x"));
}

TEST(ForeignFields, WhatIsExpectedMayBeThereOnceAndAsItIsWritten) {
  ForeignFields fields({}, {"token", "key"});
  fields.expect("token");
  EXPECT_FALSE(fields.feed(R"({"token":1,)"));
  EXPECT_TRUE(fields.feed(R"("token":1})"));
  ForeignFields others({}, {"token", "key"});
  others.expect("token");
  EXPECT_TRUE(others.feed(R"({"Token":1})"));
}

TEST(ForeignFields, AsTheMostLenientHostReads) {
  for (const char* body : {"a=1;token=x", "token=x", "a=1&private_token=x"})
    EXPECT_TRUE(is_found("", body)) << body;
  EXPECT_TRUE(is_found(kForm, "a=1;token=x"));
  std::string wide("\xFF\xFE", 2);
  for (const char c : std::string_view(R"({"token":"x"})")) wide.append({c, '\0'});
  for (const std::string& body :
       {wide, std::string(R"({/*"*/"token":"x"})"), std::string("{//\"\n\"token\":1}"),
        std::string("{# \"\n\"token\":1}"), std::string("{'token':1}"), std::string("{token:1}"),
        std::string("{'a':\"'\",token : 1}")})
    EXPECT_TRUE(is_found("application/json", body)) << body;
  EXPECT_TRUE(is_found(kParts, "--b\rContent-Disposition: form-data; name=\"token\"\r\rx\r--b--"));
  EXPECT_FALSE(is_found("application/json", R"({"a":1 /* token: */, "b":"//","c":2})"));
  EXPECT_FALSE(
      is_found("application/x-ndjson", "{\"index\":{}}\n{\"token\":\"a document's own\"}\n"));
}

class ForeignBodyTest : public RawRelayTest {
 protected:
  ForeignBodyTest() { set("TOKEN", kSecret, {"host=api.test.example"}); }

  bool leaves(std::string_view type, std::string_view body) {
    const std::string answer =
        converse(fmt::format("POST /x HTTP/1.1\r\nHost: api.test.example\r\nConnection: close\r\n"
                             "Content-Type: {}\r\nContent-Length: {}\r\n\r\n{}",
                             type, body.size(), body),
                 origin(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    if (host_got_.empty()) EXPECT_THAT(answer, HasSubstr("X-Pons-Refused: foreign_credential"));
    return !host_got_.empty();
  }
};

TEST_F(ForeignBodyTest, ABoundHostTakesNoCredentialInABody) {
  EXPECT_FALSE(leaves(kForm, "token=xoxb-attackers-own&channel=C&text=data"));
  EXPECT_FALSE(leaves("application/json", R"({"channel":"C","token":"xoxb-attackers-own"})"));
  EXPECT_FALSE(leaves(kParts, part(R"(form-data; name="private_token")")));
  EXPECT_TRUE(leaves(kForm, "channel=C&text=token"));
  EXPECT_TRUE(leaves("application/json", R"({"text":"token=x","page_token":"y"})"));
}

TEST_F(ForeignBodyTest, ALongBodyEndsWhereOneStands) {
  const std::string answer =
      converse(fmt::format("POST /x HTTP/1.1\r\nHost: api.test.example\r\nConnection: close\r\n"
                           "Content-Type: {}\r\nContent-Length: 300017\r\n\r\ntext={}&token=zebra",
                           kForm, std::string(300'000, 'x')),
               origin(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(host_got_.find("zebra"), std::string::npos);
  EXPECT_THAT(logged(), HasSubstr("foreign_credential"));
}

}  // namespace
}  // namespace pons::egress
