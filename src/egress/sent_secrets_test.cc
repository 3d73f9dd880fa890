#include "sent_secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pons/scan/scanner.h"
#include "pons/vault/vault.h"

namespace pons::egress {
namespace {

constexpr std::string_view kOne = "first-secret-of-a-project-0123";
constexpr std::string_view kTwo = "second-secret-of-a-project-4567";

class SentSecretsTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const Secret> value(std::string_view text) {
    return std::make_shared<const Secret>(std::string(text));
  }
  static Destination host(std::string_view name) { return *names::HostName::parse(name); }
  Result<void> note(std::string_view text, const std::string& project = "mine",
                    const std::string& name = "key",
                    const HostPattern& where = {.name = "a.example"}) {
    return sent_.note({where, 443, project, name, value(text)});
  }
  bool finds(std::string_view text, std::string_view name = "a.example",
             const std::string& project = "mine") {
    const auto all = sent_.needles_for(project, host(name));
    EXPECT_TRUE(all);
    return std::ranges::any_of(*all, [&](const ProjectNeedles& needles) {
      return scan::scan_text({needles.set}, text).has_value();
    });
  }

  ManualClock clock_;
  SentSecrets sent_{clock_, {.project_values = 3, .project_bytes = 128, .all_bytes = 192}};
};

TEST_F(SentSecretsTest, AValueIsLookedForAtItsHostOnly) {
  ASSERT_TRUE(note(kOne));
  EXPECT_TRUE(finds(kOne));
  EXPECT_FALSE(finds(kTwo));
  EXPECT_FALSE(finds(kOne, "b.example"));
  EXPECT_TRUE(sent_.contains("mine", host("a.example")));
  EXPECT_TRUE(sent_.contains("mine", host("a.example"), 443));
  EXPECT_FALSE(sent_.contains("mine", host("a.example"), 22));
  EXPECT_FALSE(sent_.contains("mine", host("x.a.example")));
  EXPECT_FALSE(sent_.contains("mine", *parse_destination("1.2.3.4")));
}

TEST_F(SentSecretsTest, AWildcardMeansAllNamesDirectlyBelow) {
  ASSERT_TRUE(note(kOne, "mine", "key", {HostPattern::Kind::kOneBelow, "example.com"}));
  EXPECT_TRUE(finds(kOne, "x.example.com"));
  EXPECT_FALSE(finds(kOne, "example.com"));
  EXPECT_FALSE(finds(kOne, "x.y.example.com"));
}

TEST_F(SentSecretsTest, AWildcardOfARuleMeansAllNamesBelow) {
  ASSERT_TRUE(note(kOne, "mine", "key", {HostPattern::Kind::kAllBelow, "example.com"}));
  EXPECT_TRUE(finds(kOne, "x.example.com"));
  EXPECT_TRUE(finds(kOne, "x.y.z.example.com"));
  EXPECT_FALSE(finds(kOne, "example.com"));
  EXPECT_FALSE(finds(kOne, "x.another-example.com"));
  ASSERT_TRUE(note(kTwo, "mine", "other", {HostPattern::Kind::kAllBelow, "com"}));
  EXPECT_TRUE(finds(kTwo, "x.y.example.com"));
  EXPECT_FALSE(finds(kTwo, "com"));
}

TEST_F(SentSecretsTest, AllShareOneSetUntilSomethingIsAdded) {
  ASSERT_TRUE(note(kOne));
  const auto before = (*sent_.needles_for("mine", host("a.example"))).front().set;
  ASSERT_TRUE(note(kOne));
  ASSERT_TRUE(note(kTwo, "mine", "key", {.name = "b.example"}));
  EXPECT_EQ((*sent_.needles_for("mine", host("a.example"))).front().set, before);
  ASSERT_TRUE(note(kTwo, "theirs"));
  EXPECT_EQ((*sent_.needles_for("mine", host("a.example"))).front().set, before);
  ASSERT_TRUE(note(kTwo));
  EXPECT_NE((*sent_.needles_for("mine", host("a.example"))).front().set, before);
}

TEST_F(SentSecretsTest, AFormerValueIsForgottenAfterTheGraceTime) {
  ASSERT_TRUE(note(kOne));
  ASSERT_TRUE(note(kOne, "theirs"));
  clock_.advance(vault::kDefaultGrace * 100);
  sent_.forget_expired();
  EXPECT_TRUE(finds(kOne));
  sent_.retire("theirs", "key", value(kTwo).get());
  sent_.retire("mine", "key", value(kOne).get());  // has it still
  clock_.advance(vault::kDefaultGrace);
  sent_.forget_expired();
  EXPECT_TRUE(finds(kOne));
  EXPECT_FALSE(finds(kOne, "a.example", "theirs"));
  sent_.retire("mine", "key", nullptr);
  clock_.advance(std::chrono::minutes(30));
  sent_.forget_expired();
  EXPECT_TRUE(finds(kOne));
  clock_.advance(std::chrono::minutes(30));
  sent_.forget_expired();
  EXPECT_FALSE(sent_.contains("mine", host("a.example")));
}

TEST_F(SentSecretsTest, AValueThatIsSentAgainStays) {
  ASSERT_TRUE(note(kOne));
  sent_.retire("mine", "key", nullptr);
  ASSERT_TRUE(note(kOne));
  clock_.advance(vault::kDefaultGrace * 2);
  sent_.forget_expired();
  EXPECT_TRUE(finds(kOne));
}

TEST_F(SentSecretsTest, WhatCannotBeRememberedIsRefused) {
  for (const char* name : {"a.example", "b.example", "c.example"})
    ASSERT_TRUE(note(kOne, "mine", "key", {.name = name}));
  EXPECT_EQ(note(kTwo).error().code, ErrorCode::kLimit);
  EXPECT_TRUE(note(kOne));
  EXPECT_EQ(note(std::string(129, 'x'), "theirs").error().code, ErrorCode::kLimit);
  EXPECT_TRUE(note(kTwo, "theirs"));
  EXPECT_TRUE(finds(kOne, "c.example"));
}

TEST_F(SentSecretsTest, OnlyAProjectsOwnFormerValuesMakeRoom) {
  ASSERT_TRUE(note(std::string(100, 'x'), "theirs"));
  sent_.retire("theirs", "key", nullptr);
  ASSERT_TRUE(note(std::string(70, 'y')));
  EXPECT_EQ(note(kTwo, "mine", "other").error().code, ErrorCode::kLimit);
  sent_.retire("mine", "key", nullptr);
  ASSERT_TRUE(note(kTwo, "mine", "other"));
  EXPECT_TRUE(finds(std::string(100, 'x'), "a.example", "theirs"));
  EXPECT_FALSE(finds(std::string(70, 'y')));
}

TEST_F(SentSecretsTest, WhatARuleSaysItselfIsForgottenWhenItIsNotSentAnyMore) {
  ASSERT_TRUE(note(kOne, "mine", ""));
  clock_.advance(std::chrono::minutes(50));
  ASSERT_TRUE(note(kOne, "mine", ""));
  clock_.advance(std::chrono::minutes(50));
  sent_.forget_expired();
  EXPECT_TRUE(finds(kOne));
  clock_.advance(std::chrono::minutes(10));
  sent_.forget_expired();
  EXPECT_FALSE(sent_.contains("mine", host("a.example")));
}

TEST_F(SentSecretsTest, TheOldestFormerValueMakesRoomFirst) {
  for (const char c : {'1', '2', '3', '4'}) {
    ASSERT_TRUE(note(std::string(20, c), "mine", ""));
    clock_.advance(std::chrono::minutes(1));
  }
  EXPECT_FALSE(finds(std::string(20, '1')));
  EXPECT_TRUE(finds(std::string(20, '2')));
  EXPECT_TRUE(finds(std::string(20, '4')));
}

TEST_F(SentSecretsTest, AHostIsAnnouncedOnceToAProject) {
  std::vector<std::string> heard;
  sent_.on_new_host([&](const std::string& project, const HostPattern& where) {
    heard.push_back(project + " " + text_of(where));
  });
  ASSERT_TRUE(note(kOne));
  ASSERT_TRUE(note(kOne, "theirs"));
  ASSERT_TRUE(note(kOne, "mine", "key", {HostPattern::Kind::kOneBelow, "example.com"}));
  EXPECT_THAT(heard,
              ::testing::ElementsAre("mine a.example", "theirs a.example", "mine *.example.com"));
}

}  // namespace
}  // namespace pons::egress
