#include "pons/linux/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pons/base/text.h"

namespace pons::linux {
namespace {

using namespace std::chrono_literals;

TimePoint in_ten_seconds() {
  return std::chrono::steady_clock::now() + 10s;
}

ChildOptions shell(std::string script) {
  return {.argv = {"sh", "-c", std::move(script)}, .environment = {"PATH=/usr/bin:/bin"}};
}

// What the script wrote to its standard output.
std::string output_of(ChildOptions options) {
  Pipe pipe = *create_pipe();
  options.descriptors.emplace_back(pipe.write_end.get(), 1);
  auto child = ChildProcess::spawn("/bin/sh", options);
  EXPECT_TRUE(child) << child.error().describe();
  pipe.write_end.reset();
  return *read_all(pipe.read_end.get(), 1 << 16);
}

TEST(ChildProcess, ReportsExitCodeAndSignal) {
  auto exited = ChildProcess::spawn("/bin/sh", shell("exit 3"));
  ASSERT_TRUE(exited) << exited.error().describe();
  EXPECT_EQ(exited->wait().code, 3);
  EXPECT_EQ(exited->wait().describe(), "exit code 3");  // asked again, the same answer

  auto killed = ChildProcess::spawn("/bin/sh", shell("kill -TERM $$"));
  const ExitStatus status = killed->wait();
  EXPECT_EQ(status.signal, SIGTERM);
  EXPECT_EQ(status.code, -1);
  EXPECT_EQ(status.describe(), "killed by signal 15 (Terminated)");
}

TEST(ChildProcess, ExecFailureIsAnErrorOfTheParent) {
  const auto missing = ChildProcess::spawn("/no/such/program", {.argv = {"x"}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().os_error, ENOENT);
  EXPECT_STREQ(missing.error().step, "execute");
  EXPECT_EQ(missing.error().message, "/no/such/program");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "the failed child was not reaped";
  EXPECT_EQ(errno, ECHILD);
}

TEST(ChildProcess, RefusesHostileOptions) {
  EXPECT_FALSE(ChildProcess::spawn("/bin/true", {.argv = {}}));
  EXPECT_FALSE(ChildProcess::spawn("/bin/true", {.argv = {std::string("a\0b", 3)}}));
  EXPECT_FALSE(ChildProcess::spawn("/bin/true", {.argv = {"x"}, .descriptors = {{0, 5}, {1, 5}}}));
  EXPECT_FALSE(ChildProcess::spawn("/bin/true", {.argv = {"x"}, .descriptors = {{-1, 5}}}));
  EXPECT_FALSE(ChildProcess::spawn("/bin/true", {.argv = {"x"}, .descriptors = {{0, 1 << 20}}}));
  const auto closed = ChildProcess::spawn("/bin/true", {.argv = {"x"}, .descriptors = {{999, 5}}});
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().os_error, EBADF);
}

TEST(ChildProcess, NoDescriptorLeaksIntoTheChild) {
  UniqueFd leak(open("/etc/passwd", O_RDONLY));  // without O_CLOEXEC, as a library might
  ASSERT_TRUE(leak);
  // The shell's own listing needs one more, which is the last.
  const std::string listing = output_of(shell("cd /proc/self/fd && echo *"));
  EXPECT_EQ(listing, "0 1 2 3\n");
  EXPECT_EQ(output_of(shell("readlink /proc/self/fd/0 /proc/self/fd/2")), "/dev/null\n/dev/null\n");
}

TEST(ChildProcess, DescriptorsThatTradeNumbersArriveRight) {
  Pipe first = *create_pipe();
  Pipe second = *create_pipe();
  ChildOptions options = shell("echo one >&9; echo two >&8");
  UniqueFd at_eight(fcntl(first.write_end.get(), F_DUPFD_CLOEXEC, 8));
  UniqueFd at_nine(fcntl(second.write_end.get(), F_DUPFD_CLOEXEC, 9));
  options.descriptors = {{at_eight.get(), 9}, {at_nine.get(), 8}};
  auto child = ChildProcess::spawn("/bin/sh", options);
  ASSERT_TRUE(child) << child.error().describe();
  EXPECT_EQ(child->wait().code, 0);
  char text[5] = {};
  ASSERT_EQ(read(first.read_end.get(), text, 4), 4);
  EXPECT_STREQ(text, "one\n");
  ASSERT_EQ(read(second.read_end.get(), text, 4), 4);
  EXPECT_STREQ(text, "two\n");
}

TEST(ChildProcess, EnvironmentIsNotInherited) {
  setenv("PONS_TEST_SECRET", "visible", 1);
  ChildOptions options = shell("env");
  options.environment.emplace_back("GIVEN=yes");
  const std::string environment = output_of(options);
  unsetenv("PONS_TEST_SECRET");
  EXPECT_NE(environment.find("GIVEN=yes"), std::string::npos);
  EXPECT_EQ(environment.find("PONS_TEST_SECRET"), std::string::npos);
}

TEST(ChildProcess, ExecutesAnOpenFileEvenWhenItsNumberIsTaken) {
  const UniqueFd shell_file = *open_file("/bin/sh", O_RDONLY);
  ChildOptions options = shell("echo from descriptor");
  Pipe pipe = *create_pipe();
  options.descriptors = {{pipe.write_end.get(), 1}, {pipe.write_end.get(), shell_file.get()}};
  auto child = ChildProcess::spawn("/proc/self/fd/" + std::to_string(shell_file.get()), options);
  ASSERT_TRUE(child) << child.error().describe();
  EXPECT_EQ(child->wait().code, 0);
  pipe.write_end.reset();
  EXPECT_EQ(*read_all(pipe.read_end.get(), 4096), "from descriptor\n");
}

TEST(ChildProcess, BlockedAndIgnoredSignalsAreBackToNormalInTheChild) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t mask, old_mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  sigprocmask(SIG_BLOCK, &mask, &old_mask);
  const std::string status = output_of(shell("grep -E '^Sig(Blk|Ign)' /proc/self/status"));
  sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  EXPECT_EQ(status, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST(ChildProcess, DestructionKillsAndReaps) {
  pid_t pid = -1;
  {
    auto child =
        ChildProcess::spawn("/bin/sh", shell("trap '' TERM INT; while :; do sleep 1; done"));
    ASSERT_TRUE(child) << child.error().describe();
    pid = child->pid();
    EXPECT_EQ(child->try_wait(), std::nullopt);
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(ChildProcess, MovingOverALiveChildEndsIt) {
  auto first = *ChildProcess::spawn("/bin/sleep", {.argv = {"sleep", "1000"}});
  const pid_t old_pid = first.pid();
  first = *ChildProcess::spawn("/bin/sleep", {.argv = {"sleep", "1000"}});
  EXPECT_EQ(kill(old_pid, 0), -1);
  EXPECT_EQ(kill(first.pid(), 0), 0);
}

TEST(ChildProcess, SignalsReachItAndAnEndedOneIsNotFound) {
  auto child = *ChildProcess::spawn("/bin/sleep", {.argv = {"sleep", "1000"}});
  ASSERT_TRUE(child.send_signal(SIGINT));
  const auto status = child.wait_until(in_ten_seconds());
  ASSERT_TRUE(status);
  EXPECT_EQ(status->signal, SIGINT);
  EXPECT_EQ(child.send_signal(SIGINT).error().code, ErrorCode::kNotFound);
}

TEST(ChildProcess, WaitUntilGivesUpAtItsDeadline) {
  auto child = *ChildProcess::spawn("/bin/sleep", {.argv = {"sleep", "1000"}});
  EXPECT_EQ(child.wait_until(std::chrono::steady_clock::now()), std::nullopt);
}

TEST(DieWithParent, RefusesWhenTheParentIsAlreadyGone) {
  EXPECT_TRUE(die_with_parent(getppid()));
  EXPECT_EQ(die_with_parent(getppid() + 1).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace pons::linux
