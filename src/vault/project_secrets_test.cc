#include "pons/vault/project_secrets.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "vault_fixture.h"

namespace pons::vault {
namespace {

constexpr std::string_view kValue = "a value that is long enough to be found";

class ProjectSecretsTest : public VaultTest {
 protected:
  ProjectSecretsTest() { reopen(); }
  void reopen() {
    auto opened = ProjectSecrets::open(directory_, *load_or_create_key(directory_), clock_);
    ASSERT_TRUE(opened) << opened.error().describe();
    secrets_ = std::move(*opened);
  }
  Result<ProjectSecrets::Found> create(const std::string& project, const std::string& name,
                                       std::string value = std::string(kValue)) {
    return secrets_->create(project, name, Secret(std::move(value)), {{"a", "b"}});
  }
  std::vector<std::filesystem::path> files() {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/secrets"))
      all.push_back(entry.path());
    return all;
  }

  std::unique_ptr<ProjectSecrets> secrets_;
};

TEST_F(ProjectSecretsTest, OneProjectNeitherFindsNorChangesThoseOfAnother) {
  const auto made = create("mine", "token");
  ASSERT_TRUE(made);
  EXPECT_EQ(secrets_->find_named("theirs", "token"), nullptr);
  EXPECT_TRUE(secrets_->list("theirs").empty());
  EXPECT_TRUE(secrets_->list("min").empty());
  EXPECT_EQ(secrets_->load("theirs", (*made)->id).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(secrets_->update("theirs", "token", Secret(std::string("x")), {}));
  EXPECT_FALSE(secrets_->remove("theirs", (*made)->id));
  ASSERT_TRUE(create("theirs", "token", "another one"));
  EXPECT_EQ(secrets_->find_named("mine", "token")->value.reveal(), kValue);
}

TEST_F(ProjectSecretsTest, WhatWasKeptIsThereAfterARestartAndSealed) {
  const std::string id = (*create("mine", "token"))->id;
  ASSERT_TRUE(secrets_->update("mine", id, Secret(std::string("second value")), std::nullopt));
  reopen();
  const auto again = secrets_->find_named("mine", "token");
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->value.reveal(), "second value");
  EXPECT_EQ(again->version, 2U);
  EXPECT_EQ(again->metadata.at("a"), "b");
  for (const auto& file : files()) {
    std::stringstream bytes;
    bytes << std::ifstream(file).rdbuf();
    EXPECT_THAT(bytes.str(), ::testing::Not(::testing::HasSubstr("second")));
    EXPECT_THAT(bytes.str(), ::testing::Not(::testing::HasSubstr("token")));
  }
}

TEST_F(ProjectSecretsTest, AFileUnderAnotherNameDoesNotOpen) {
  ASSERT_TRUE(create("mine", "token"));
  std::filesystem::rename(files().front(), directory_ + "/secrets/secother.sealed");
  reopen();
  EXPECT_EQ(secrets_->damaged().size(), 1U);
  EXPECT_TRUE(secrets_->list("mine").empty());
}

TEST_F(ProjectSecretsTest, ADestroyedSecretLeavesNoFile) {
  ASSERT_TRUE(create("mine", "token"));
  EXPECT_TRUE(secrets_->remove("mine", "token"));
  EXPECT_TRUE(files().empty());
  EXPECT_FALSE(secrets_->remove("mine", "token"));
}

TEST_F(ProjectSecretsTest, EveryChangeIsHeardOfAndNoRefusal) {
  std::vector<std::string> heard;
  secrets_->on_change([&](const std::string& project, const std::string& name) {
    const auto now = secrets_->find_named(project, name);
    heard.push_back(project + "/" + name + " " + (now ? std::to_string(now->version) : "gone"));
  });
  const std::string id = (*create("mine", "token"))->id;
  ASSERT_TRUE(secrets_->update("mine", id, Secret(std::string("another value")), std::nullopt));
  EXPECT_FALSE(secrets_->update("mine", id, Secret(std::string("two\nlines")), std::nullopt));
  EXPECT_FALSE(secrets_->remove("theirs", id));
  ASSERT_TRUE(secrets_->remove("mine", id));
  EXPECT_EQ(heard, (std::vector<std::string>{"mine/token 1", "mine/token 2", "mine/token gone"}));
}

TEST_F(ProjectSecretsTest, WhatNoFieldCouldHoldIsRefused) {
  for (const char* value : {"", "two\nlines", " space", "t\xC3\xA4xt"})
    EXPECT_EQ(create("mine", "n", value).error().code, ErrorCode::kInvalid) << value;
  EXPECT_FALSE(create("mine", "n", std::string(8193, 'x')));
  for (const char* name : {"", "a}b", "a{", "a\nb", "\xFF"})
    EXPECT_EQ(create("mine", name).error().code, ErrorCode::kInvalid) << name;
  ASSERT_TRUE(create("mine", "n"));
  EXPECT_EQ(create("mine", "n").error().code, ErrorCode::kConflict);
}

TEST_F(ProjectSecretsTest, LettersOfANameAreSmallAndIdsAreNoNames) {
  const auto made = create("mine", "Reader-Token");
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)->name, "reader-token");
  EXPECT_TRUE((*made)->id.starts_with("sec_"));
  EXPECT_EQ(create("mine", "READER-token").error().code, ErrorCode::kConflict);
  EXPECT_EQ(secrets_->find_named("mine", "rEADER-TOKEN"), *made);
  EXPECT_EQ(*secrets_->load("mine", (*made)->id), *made);
  for (const char* name : {"sec_", "sec_x", "SEC_x"})
    EXPECT_EQ(create("mine", name).error().code, ErrorCode::kInvalid) << name;
  EXPECT_TRUE(create("mine", "second"));
  EXPECT_EQ((*secrets_->update("mine", "Reader-TOKEN", Secret(std::string("other")), {}))->version,
            2U);
  ASSERT_TRUE(secrets_->remove("mine", "Reader-Token"));
  EXPECT_EQ(secrets_->find_named("mine", "reader-token"), nullptr);
}

TEST_F(ProjectSecretsTest, AProjectHasARoomOfItsOwn) {
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(create("mine", std::to_string(i)));
  EXPECT_EQ(create("mine", "one more").error().code, ErrorCode::kLimit);
  EXPECT_TRUE(create("theirs", "first"));
}

}  // namespace
}  // namespace pons::vault
