#include <gmock/gmock.h>

#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli_fixture.h"
#include "pons/base/json.h"

namespace pons::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kDigits = "0123456789abcdef0123456789abcdef01234567";

class KeyCliTest : public AnsweredCliTest {
 protected:
  static std::string made_key() {
    return fmt::format(R"({{"id":"key_a","project":"default","name":"ci","scopes":["models"],)"
                       R"("created_unix_ms":1,"revoked_unix_ms":null,"key":"pons_{}"}})",
                       kDigits);
  }
};

TEST_F(KeyCliTest, AKeyStandsAloneOnStandardOutput) {
  const Outcome made = run_against(201, made_key(), {"key", "create", "ci"}, "brain");
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out, fmt::format("pons_{}\n", kDigits));
  EXPECT_THAT(made.err, AllOf(HasSubstr("key_a"), Not(HasSubstr(kDigits))));
  EXPECT_EQ(asked_, R"(POST /api-keys {"name":"ci"})");
}

TEST_F(KeyCliTest, ProjectAndScopesAreHandedOn) {
  const Outcome made = run_against(
      201, made_key(),
      {"key", "create", "--project", "web", "--scope", "models", "--scope", "admin", "ci"},
      "brain");
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(asked_, R"(POST /api-keys {"name":"ci","project":"web","scopes":["models","admin"]})");
}

TEST_F(KeyCliTest, AKeyThatIsTypedInPlaceOfItsIdDoesNotLeaveTheTerminal) {
  for (const char* wrong : {"a/b", "../projects", "a b", ""}) {
    const Outcome refused = run_against(200, "{}", {"key", "revoke", wrong}, "brain");
    EXPECT_EQ(refused.exit_code, 1) << wrong;
    EXPECT_EQ(asked_, "") << wrong;
  }
}

TEST_F(KeyCliTest, WhatABrokenBrainSaysIsShownWithoutHarm) {
  const Outcome listed =
      run_against(200,
                  R"({"keys":[{"id":"k\u001b[2J","project":"p","name":"n\u0007","scopes":[],)"
                  R"("created_unix_ms":1,"revoked_unix_ms":2}]})",
                  {"key", "ls"}, "brain");
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(listed.out, AllOf(Not(HasSubstr("\x1b[2J")), Not(HasSubstr("\a"))));
  EXPECT_EQ(run_against(200, R"({"keys":7})", {"key", "ls"}, "brain").exit_code, 1);
}

TEST_F(KeyCliTest, ABackupThatIsNoneGetsNoName) {
  const std::string file = scratch_ + "/backup.db";
  const Outcome made = run_against(200, std::string(9000, 'g'), {"backup", file}, "brain");
  EXPECT_EQ(made.exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_FALSE(std::filesystem::exists(file + ".partial"));
}

TEST_F(KeyCliTest, ABackupIsNeverWrittenOverAFile) {
  const std::string file = scratch_ + "/precious";
  std::ofstream(file) << "precious";
  const Outcome made = run_against(200, "{}", {"backup", file}, "brain");
  EXPECT_EQ(made.exit_code, 1);
  EXPECT_THAT(made.err, HasSubstr("exists already"));
  EXPECT_EQ(asked_, "");
  EXPECT_EQ(std::filesystem::file_size(file), 8U);
}

TEST_F(KeyCliTest, WithoutAPonsTheAdviceIsToStartIt) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"key", "ls"}, {"project", "ls"}, {"backup", "b"}}) {
    auto all = words;
    all.insert(all.end(), {"--state-dir", scratch_});
    const Outcome refused = run_pons(all);
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.err, HasSubstr("pons up"));
  }
}

}  // namespace
}  // namespace pons::cli
