#include "keys.h"

#include <gtest/gtest.h>

#include "pons/base/text.h"
#include "rate_limit.h"

namespace pons::front {
namespace {

class KeysTest : public ::testing::Test {
 protected:
  static constexpr std::string_view kDigits = "0123456789abcdef0123456789abcdef01234567";

  static std::string list(std::string_view hash, std::string_view scopes = R"(["sandboxes"])") {
    return R"({"generation":"g1","keys":[{"id":"key_1","project":"p","hash":")" +
           std::string(hash) + R"(","scopes":)" + std::string(scopes) + "}]}";
  }

  Result<Identity> identify(std::string field, std::string value) {
    field_ = std::move(field);
    value_ = std::move(value);
    http::RequestHead head;
    head.fields = {{field_, value_}};
    return keys_.identify(head);
  }

  std::string field_, value_;
  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  Keys keys_{*loop_, sha256_hex("the admin's token")};
};

TEST_F(KeysTest, AKeyIsKnownByItsHashWhateverStandsInFrontOfIt) {
  ASSERT_TRUE(keys_.accept(list(sha256_hex(kDigits))));
  for (const char* prefix : {"pons_", "e2b_", ""}) {
    const auto identity = identify("X-API-KEY", prefix + std::string(kDigits));
    ASSERT_TRUE(identity) << prefix;
    EXPECT_EQ(identity->project, "p");
    EXPECT_TRUE(identity->may("sandboxes"));
    EXPECT_FALSE(identity->may("admin"));
  }
  EXPECT_TRUE(identify("Authorization", "Bearer pons_" + std::string(kDigits)));
}

TEST_F(KeysTest, WhatOpensNothingIsDenied) {
  ASSERT_TRUE(keys_.accept(list(sha256_hex(kDigits))));
  EXPECT_EQ(identify("X-API-KEY", "").error().code, ErrorCode::kDenied);
  EXPECT_EQ(identify("X-API-KEY", "pons_0000").error().code, ErrorCode::kDenied);
  // The hash itself is no key.
  EXPECT_EQ(identify("X-API-KEY", sha256_hex(kDigits)).error().code, ErrorCode::kDenied);
  EXPECT_EQ(identify("Authorization", std::string(kDigits)).error().code, ErrorCode::kDenied);
  EXPECT_EQ(identify("Cookie", std::string(kDigits)).error().code, ErrorCode::kDenied);
}

TEST_F(KeysTest, ARevokedKeyIsGoneWithTheNextList) {
  ASSERT_TRUE(keys_.accept(list(sha256_hex(kDigits))));
  ASSERT_TRUE(keys_.accept(R"({"generation":"g2","keys":[]})"));
  EXPECT_EQ(identify("X-API-KEY", std::string(kDigits)).error().code, ErrorCode::kDenied);
}

TEST_F(KeysTest, BeforeTheFirstListNobodyIsDeniedOrLetIn) {
  EXPECT_EQ(identify("X-API-KEY", std::string(kDigits)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(identify("X-API-KEY", "the admin's token")->key, "admin");
}

TEST_F(KeysTest, TheOperatorsTokenOpensTheOperatorsDoorInOneFormOnly) {
  http::RequestHead head;
  head.fields = {{"Authorization", "Bearer the admin's token"}};
  EXPECT_TRUE(keys_.is_admin(head));
  head.fields = {{"X-API-KEY", "the admin's token"}};
  EXPECT_FALSE(keys_.is_admin(head));
}

TEST_F(KeysTest, AListOfAnotherShapeChangesNothing) {
  ASSERT_TRUE(keys_.accept(list(sha256_hex(kDigits))));
  for (const char* body :
       {"", "[]", "{}", R"({"generation":1,"keys":[]})",
        R"({"generation":"g","keys":[{"id":"k"}]})", R"({"generation":"g","keys":7})"})
    EXPECT_FALSE(keys_.accept(body)) << body;
  EXPECT_TRUE(identify("X-API-KEY", std::string(kDigits)));
}

TEST(RateLimitTest, ABurstPassesAndThenItTakesTurns) {
  RateLimit limit(10);
  const TimePoint begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(limit.take("a", begin), Duration::zero());
  EXPECT_GT(limit.take("a", begin), Duration::zero());
  EXPECT_EQ(limit.take("b", begin), Duration::zero());  // another key has its own
  EXPECT_EQ(limit.take("a", begin + std::chrono::milliseconds(150)), Duration::zero());
  EXPECT_GT(limit.take("a", begin + std::chrono::milliseconds(150)), Duration::zero());
}

}  // namespace
}  // namespace pons::front
