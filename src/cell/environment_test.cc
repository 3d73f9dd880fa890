#include "environment.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "shell.h"

namespace pons::cell {
namespace {

using namespace std::string_literals;

struct Fixture {
  std::unique_ptr<Environment> environment = std::make_unique<Environment>();
  User user = {
      .uid = 1, .gid = 1, .groups = {}, .group_count = 0, .name = "me", .home = "/home/me"};
};

TEST(Environment, JobIsOverClaimAndDefaultsFillGaps) {
  Fixture fixture;
  const std::string claim = "A=1\0PATH=/p\0"s;
  const std::string job = "A=2\0AA=3\0"s;
  fixture.environment->build({claim.data(), 2}, {job.data(), 2}, fixture.user, true);
  EXPECT_STREQ(fixture.environment->find("A"), "2");
  EXPECT_STREQ(fixture.environment->find("AA"), "3");
  EXPECT_STREQ(fixture.environment->find("PATH"), "/p");
  EXPECT_STREQ(fixture.environment->find("HOME"), "/home/me");
  EXPECT_STREQ(fixture.environment->find("TERM"), "xterm-256color");
  EXPECT_EQ(fixture.environment->find("B"), nullptr);
  EXPECT_EQ(fixture.environment->strings()[fixture.environment->count()], nullptr);
}

TEST(ShellScript, QuotesEverythingThatIsNotItsOwn) {
  Fixture fixture;
  const std::string job = "A=it's\n$(x)\0"s;
  fixture.environment->build({}, {job.data(), 1}, fixture.user, false);
  char script[4096];
  const WaitingShell::Line line{
      ShellKind::kPlain, &fixture.user, fixture.environment.get(), "/a'b", false, "echo 'x'"};
  const std::string written(script,
                            write_shell_script(line, *fixture.environment, script, sizeof script));
  EXPECT_NE(written.find("export A='it'\\''s\n$(x)';"), std::string::npos);
  EXPECT_NE(written.find("cd -P -- '/a'\\''b' ||"), std::string::npos);
  EXPECT_TRUE(written.ends_with("eval 'echo '\\''x'\\'''\n"));
}

TEST(ShellScript, NamesThatAShellTreatsSpeciallyAreNotFed) {
  for (const std::string name : {"IFS", "OPTIND", "UID", "A.B", "1A", "A B", "a;rm", "BASH_ENV"}) {
    Fixture fixture;
    const std::string job = name + "=x\0"s;
    fixture.environment->build({}, {job.data(), 1}, fixture.user, false);
    char script[4096];
    const WaitingShell::Line line{
        ShellKind::kPlain, &fixture.user, fixture.environment.get(), "/", false, ":"};
    EXPECT_EQ(write_shell_script(line, *fixture.environment, script, sizeof script), 0U) << name;
  }
}

TEST(ShellScript, LineThatDoesNotFitIsNotCut) {
  Fixture fixture;
  fixture.environment->build({}, {}, fixture.user, false);
  char script[1024];
  const std::string text(2000, 'x');
  const WaitingShell::Line line{
      ShellKind::kPlain, &fixture.user, fixture.environment.get(), "/", false, text.c_str()};
  EXPECT_EQ(write_shell_script(line, *fixture.environment, script, sizeof script), 0U);
}

}  // namespace
}  // namespace pons::cell
