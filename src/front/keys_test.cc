#include "keys.h"

#include <gtest/gtest.h>

#include "admission.h"
#include "open_streams.h"
#include "pons/base/text.h"
#include "pons/linux/run_task.h"

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

  Task<linux::Wait> until_empty(linux::TaskGroup& group) {
    co_return co_await group.wait_until_empty(loop_->now() + std::chrono::seconds(5));
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

TEST_F(KeysTest, WhoWaitsForTheEndOfAKeyHearsOfIt) {
  ASSERT_TRUE(keys_.accept(list(sha256_hex(kDigits))));
  linux::TaskGroup waiting(*loop_);
  waiting.spawn(keys_.wait_until_gone("key_1"));
  ASSERT_TRUE(keys_.accept(list(sha256_hex(kDigits))));
  EXPECT_EQ(waiting.size(), 1U) << "other news is none for it";
  ASSERT_TRUE(keys_.accept(R"({"generation":"g2","keys":[]})"));
  EXPECT_NE(linux::run_to_end(*loop_, until_empty(waiting)), linux::Wait::kTimeout);
}

TEST_F(KeysTest, AKeyHasOnlySoManyStreams) {
  constexpr std::size_t kMax = 3;
  OpenStreams streams(kMax);
  std::vector<OpenStreams::Place> places;
  for (std::size_t i = 0; i < kMax; ++i) places.push_back(std::move(*streams.enter("key_1")));
  EXPECT_EQ(streams.enter("key_1").error().code, ErrorCode::kLimit);
  EXPECT_TRUE(streams.enter("key_2"));
  places.pop_back();
  EXPECT_TRUE(streams.enter("key_1"));
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

TEST_F(KeysTest, WhoMayChangeAgentsOrSessionsMayLookAtThemAndAnAdminMayDoEverything) {
  const auto may = [](std::vector<std::string> scopes, std::string_view scope) {
    return Identity{.key = "k", .project = "p", .scopes = std::move(scopes)}.may(scope);
  };
  EXPECT_TRUE(may({"read"}, "read"));
  EXPECT_TRUE(may({"agents"}, "read"));
  EXPECT_TRUE(may({"sessions"}, "read"));
  EXPECT_FALSE(may({"models", "sandboxes", "mcp"}, "read"));
  EXPECT_FALSE(may({"read"}, "sessions"));
  EXPECT_FALSE(may({"sessions"}, "agents"));
  EXPECT_FALSE(may({"agents", "sessions", "read"}, "admin"));
  for (const char* scope : {"sandboxes", "agents", "sessions", "models", "mcp", "read", "admin"})
    EXPECT_TRUE(may({"admin"}, scope)) << scope;
}

TEST_F(KeysTest, KeysOfOneProjectShareItsLimitAndOthersDoNotFeelIt) {
  const std::string other = "76543210fedcba9876543210fedcba9876543210";
  ASSERT_TRUE(keys_.accept(
      R"({"generation":"g","requests_per_second":{"p":3},"keys":[)"
      R"({"id":"key_1","project":"p","scopes":["sessions"],"hash":")" +
      sha256_hex(kDigits) + R"("},{"id":"key_2","project":"p","scopes":["sessions"],"hash":")" +
      sha256_hex("second") + R"("},{"id":"key_3","project":"q","scopes":["sessions"],"hash":")" +
      sha256_hex(other) + R"("}]})"));
  Admission admission(*loop_, keys_);
  const auto ask = [&](const std::string& key) {
    http::RequestHead head;
    head.fields = {{"X-API-KEY", key}};
    const auto admitted = admission.admit(head, "sessions");
    return admitted ? std::optional<ErrorCode>() : admitted.error().code;
  };
  const std::string first(kDigits);
  EXPECT_FALSE(ask(first));
  EXPECT_FALSE(ask("second"));
  EXPECT_FALSE(ask(first));
  EXPECT_EQ(ask("second"), ErrorCode::kLimit);
  EXPECT_FALSE(ask(other));
}

TEST_F(KeysTest, AKeyThatAsksWithoutEndIsToldToWaitAndOthersAreNot) {
  const std::string other = "76543210fedcba9876543210fedcba9876543210";
  ASSERT_TRUE(keys_.accept(
      R"({"generation":"g","keys":[{"id":"key_1","project":"p","scopes":["read"],"hash":")" +
      sha256_hex(kDigits) + R"("},{"id":"key_2","project":"p","scopes":["read"],"hash":")" +
      sha256_hex(other) + R"("}]})"));
  Admission admission(*loop_, keys_);
  const auto ask = [&](const std::string& key) {
    http::RequestHead head;
    head.fields = {{"X-API-KEY", key}};
    const auto admitted = admission.admit(head, "read");
    return admitted ? std::optional<ErrorCode>() : admitted.error().code;
  };
  const std::string key(kDigits);
  // The loop's clock stands still meanwhile.
  std::optional<ErrorCode> refusal;
  int admitted = 0;
  while (!(refusal = ask(key)) && admitted < 100'000) ++admitted;
  EXPECT_EQ(refusal, ErrorCode::kLimit);
  EXPECT_GE(admitted, 100) << "what a burst of clients needs";
  EXPECT_FALSE(ask(other));
}

TEST_F(KeysTest, AGoodKeyForSomethingElseIsToldWhatItLacks) {
  ASSERT_TRUE(keys_.accept(list(sha256_hex(kDigits), R"(["read"])")));
  Admission admission(*loop_, keys_);
  http::RequestHead head;
  const std::string key(kDigits);
  head.fields = {{"X-API-KEY", key}};
  EXPECT_TRUE(admission.admit(head, "read"));
  const auto refused = admission.admit(head, "agents");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_NE(refused.error().message.find("--scope agents"), std::string::npos);
}

TEST(RateLimitTest, ABurstPassesAndThenItTakesTurns) {
  RateLimit limit;
  const TimePoint begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(limit.take("a", 10, begin), Duration::zero());
  EXPECT_GT(limit.take("a", 10, begin), Duration::zero());
  EXPECT_EQ(limit.take("b", 10, begin), Duration::zero());  // another key has its own
  EXPECT_EQ(limit.take("a", 10, begin + std::chrono::milliseconds(150)), Duration::zero());
  EXPECT_GT(limit.take("a", 10, begin + std::chrono::milliseconds(150)), Duration::zero());
}

}  // namespace
}  // namespace pons::front
