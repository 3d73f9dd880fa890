#include "role_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "pons/base/log.h"

namespace pons::supervisor {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// ---- the delay before a restart

TEST(RestartDelayTest, DoublesUpToTheMaximumAndStaysThere) {
  const config::SupervisorConfig settings{.restart_delay_ms = 100, .restart_delay_max_ms = 1000};
  EXPECT_EQ(restart_delay(settings, 0), Duration::zero());
  EXPECT_EQ(restart_delay(settings, 1), milliseconds(100));
  EXPECT_EQ(restart_delay(settings, 2), milliseconds(200));
  EXPECT_EQ(restart_delay(settings, 4), milliseconds(800));
  EXPECT_EQ(restart_delay(settings, 5), milliseconds(1000));
  EXPECT_EQ(restart_delay(settings, UINT32_MAX), milliseconds(1000));
  const config::SupervisorConfig extreme{.restart_delay_ms = UINT32_MAX,
                                         .restart_delay_max_ms = UINT32_MAX};
  EXPECT_EQ(restart_delay(extreme, UINT32_MAX), milliseconds(UINT32_MAX));
}

// ---- what a role says

std::vector<std::string> lines_of(std::string_view text, std::size_t piece = SIZE_MAX) {
  RoleLog log;
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
    log.feed(text.substr(0, piece), keep);
  log.finish(keep);
  return lines;
}

TEST(RoleLogTest, LinesAreTheSameHoweverTheyArrive) {
  const std::string text = "first\n\nthird\nwithout end";
  for (std::size_t piece = 1; piece <= text.size(); ++piece)
    EXPECT_THAT(lines_of(text, piece), ElementsAre("first", "", "third", "without end")) << piece;
}

TEST(RoleLogTest, ALineOfAMegabyteIsCut) {
  constexpr std::size_t kMegabyte = 1 << 20;
  const auto lines = lines_of(std::string(kMegabyte, 'x') + "\nnext\n", 4096);
  std::size_t total = 0;
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), RoleLog::kLineBytesMax);
    total += line.size();
  }
  EXPECT_EQ(lines.back(), "next");
  EXPECT_EQ(total, kMegabyte + 4);
}

TEST(RoleLogTest, OnlyTheLastTwentyLinesAreRemembered) {
  RoleLog log;
  EXPECT_THAT(log.last_words(), HasSubstr("said nothing"));
  for (int i = 1; i <= 30; ++i) log.feed(fmt::format("line {}.\n", i), [](std::string_view) {});
  EXPECT_THAT(log.last_words(), StartsWith("  line 11.\n"));
  EXPECT_THAT(log.last_words(), HasSubstr("  line 30.\n"));
}

TEST(RoleLogTest, TerminalsSeeColoursAndNothingElseTheyWouldObey) {
  EXPECT_THAT(lines_of("\x1b[31mred\x1b[0m and\ttab"), ElementsAre("\x1b[31mred\x1b[0m and\ttab"));
  EXPECT_THAT(lines_of("\x1b]0;title\x07"), ElementsAre("?]0;title?"));
  EXPECT_THAT(lines_of("\x1b[2J\x1b[1;31Hx"), ElementsAre("?[2J?[1;31Hx"));
  EXPECT_THAT(lines_of("\x1b[31"), ElementsAre("?[31"));
  EXPECT_THAT(lines_of("old\rnew\x7F\x08"), ElementsAre("old?new??"));
  EXPECT_THAT(lines_of("\xC2\x9B 2J"), ElementsAre("? 2J"));
  EXPECT_THAT(lines_of("\xC3\xA4 \xE2\x80\xA6"), ElementsAre("\xC3\xA4 \xE2\x80\xA6"));
}

// ---- processes

// The role's program is a shell: "pons role brain" makes it run the script called "role" in the
// working directory. The line to the supervisor is descriptor 4.
class RoleProcessTest : public ::testing::Test {
 protected:
  RoleProcessTest() {
    char name[] = "/tmp/pons-role-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    scratch_ = name;
    std::filesystem::current_path(scratch_);
    log_file_ = std::move(*linux::open_file(scratch_ + "/log", O_RDWR | O_CREAT, 0600));
    LogSettings settings = before_;
    settings.descriptor = log_file_.get();
    configure_log(settings);
  }
  ~RoleProcessTest() override {
    configure_log(before_);
    std::filesystem::current_path(start_directory_);
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }

  void set_script(std::string_view text) {
    ASSERT_TRUE(linux::write_file_atomically(scratch_ + "/role", text, 0600));
  }
  std::string log_text() const { return linux::read_file(scratch_ + "/log", 1 << 24).value_or(""); }

  // Supervises until it gives up or `work` has stopped it; fails instead of hanging.
  std::optional<std::string> supervise(std::function<Task<>()> work = {}) {
    std::optional<std::string> gave_up;
    bool done = false;
    linux::TaskGroup group(*loop_);
    group.spawn(note_end(gave_up, done));
    if (work) group.spawn(work());
    group.spawn(give_up_waiting());
    loop_->run();
    EXPECT_TRUE(done) << "supervise() did not return within 30 s";
    return gave_up;
  }

  const LogSettings before_ = log_settings();
  const std::filesystem::path start_directory_ = std::filesystem::current_path();
  std::string scratch_;
  linux::UniqueFd log_file_;
  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  config::SupervisorConfig settings_{
      .restart_delay_ms = 1, .restart_delay_max_ms = 2, .start_attempts = 2, .ready_seconds = 20};
  linux::UniqueFd shell_ = std::move(*linux::open_file("/bin/sh", O_RDONLY));
  RoleProcess role_{*loop_, roles::Role::kBrain, settings_, shell_.get(),
                    [] { return Result<roles::RoleStart>(roles::RoleStart{}); }};

 private:
  Task<> note_end(std::optional<std::string>& gave_up, bool& done) {
    gave_up = co_await role_.supervise();
    done = true;
    loop_->stop();
  }
  Task<> give_up_waiting() {
    co_await loop_->sleep_for(std::chrono::seconds(30));
    loop_->stop();
  }
};

TEST_F(RoleProcessTest, ARoleThatNeverGetsReadyIsGivenUpWithItsLastWords) {
  set_script("i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo \"word $i.\" >&2; done; exit 3");
  const auto gave_up = supervise();
  ASSERT_TRUE(gave_up);
  EXPECT_THAT(*gave_up, HasSubstr("brain failed to start 2 times (exit code 3)"));
  EXPECT_THAT(*gave_up, HasSubstr("  word 11.\n"));
  EXPECT_THAT(*gave_up, HasSubstr("  word 30.\n"));
  EXPECT_THAT(*gave_up, Not(HasSubstr("word 10.")));
  EXPECT_EQ(role_.state(), RoleProcess::State::kStopped);
  EXPECT_EQ(role_.restarts(), 1U);
  EXPECT_EQ(role_.pid(), 0);
}

TEST_F(RoleProcessTest, ItsLogIsRelayedAndAHugeLineIsCut) {
  set_script(
      "echo before >&2; head -c 1000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo after >&2");
  settings_.start_attempts = 1;
  const auto gave_up = supervise();
  ASSERT_TRUE(gave_up);
  EXPECT_THAT(log_text(), HasSubstr("before\n"));
  EXPECT_THAT(log_text(), HasSubstr("after\n"));
  EXPECT_THAT(log_text(), HasSubstr("\n" + std::string(RoleLog::kLineBytesMax, 'x') + "\n"));
  EXPECT_LE(gave_up->size(), (RoleLog::kLastLines + 1) * (RoleLog::kLineBytesMax + 8));
}

TEST_F(RoleProcessTest, ARoleThatSaysNothingIsKilledWhenItsTimeIsOver) {
  set_script("exec sleep 1000");
  settings_.start_attempts = 1;
  settings_.ready_seconds = 1;
  const auto gave_up = supervise();
  ASSERT_TRUE(gave_up);
  EXPECT_THAT(*gave_up, HasSubstr("killed by signal 9"));
  EXPECT_THAT(*gave_up, HasSubstr("said nothing"));
}

// The file that counts the lives tells the script which one it is in.
constexpr std::string_view kDiesTwiceAndThenStays =
    "echo x >> lives; printf ready >&4; read -r _ <&4\n"
    "[ $(wc -l < lives) -ge 3 ] || kill -9 $$\n"
    "echo steady >&2; exec sleep 1000";

Task<> stop_once_restarted(linux::Loop& loop, RoleProcess& role, std::uint64_t restarts) {
  while (role.restarts() < restarts || role.state() != RoleProcess::State::kReady)
    co_await loop.sleep_for(milliseconds(5));
  EXPECT_GT(role.pid(), 0);
  co_await role.stop(loop.now() + std::chrono::seconds(20));
}

TEST_F(RoleProcessTest, ARoleThatDiesIsStartedAgainAndStopsWhenAsked) {
  set_script(kDiesTwiceAndThenStays);
  EXPECT_EQ(supervise([&] { return stop_once_restarted(*loop_, role_, 2); }), std::nullopt);
  EXPECT_EQ(role_.restarts(), 2U);
  EXPECT_EQ(role_.last_exit(), "killed by signal 15 (Terminated)");
  EXPECT_EQ(role_.state(), RoleProcess::State::kStopped);
  EXPECT_EQ(role_.pid(), 0);
}

Task<> stop_with_deadline(linux::Loop& loop, RoleProcess& role, Duration patience) {
  co_await role.ready().wait(kNever);
  co_await role.stop(loop.now() + patience);
}

TEST_F(RoleProcessTest, ARoleThatIgnoresTheRequestToEndIsKilled) {
  set_script("trap '' TERM; printf ready >&4; exec sleep 1000");
  EXPECT_EQ(supervise([&] { return stop_with_deadline(*loop_, role_, milliseconds(50)); }),
            std::nullopt);
  EXPECT_EQ(role_.last_exit(), "killed by signal 9 (Killed)");
}

Task<> kill_between_lives(linux::Loop& loop, RoleProcess& role) {
  while (role.state() != RoleProcess::State::kWaiting) co_await loop.sleep_for(milliseconds(1));
  EXPECT_EQ(role.pid(), 0);
  role.end_now();
  co_await role.stop(loop.now() + std::chrono::seconds(20));
}

TEST_F(RoleProcessTest, BetweenTwoLivesThereIsNoPidToKill) {
  settings_.restart_delay_ms = settings_.restart_delay_max_ms = 60'000;
  set_script("printf ready >&4; read -r _ <&4; exit 7");
  EXPECT_EQ(supervise([&] { return kill_between_lives(*loop_, role_); }), std::nullopt);
  EXPECT_EQ(role_.last_exit(), "exit code 7");
}

// Writing faster than anyone reads must not keep the supervisor from its other work.
TEST_F(RoleProcessTest, AFloodOfLogLinesDoesNotKeepTheLoopFromOthers) {
  set_script("printf ready >&4; exec yes flood >&2");
  EXPECT_EQ(supervise([&] { return stop_with_deadline(*loop_, role_, std::chrono::seconds(20)); }),
            std::nullopt);
  EXPECT_THAT(role_.last_exit(), HasSubstr("signal"));
}

TEST_F(RoleProcessTest, WhatCannotBePreparedIsGivenUpToo) {
  RoleProcess hopeless(*loop_, roles::Role::kFront, settings_, shell_.get(),
                       []() -> Result<roles::RoleStart> {
                         return make_error(ErrorCode::kLimit, "prepare", "no descriptors left");
                       });
  std::optional<std::string> gave_up;
  const auto live = [](RoleProcess& role, linux::Loop& loop,
                       std::optional<std::string>& out) -> Task<> {
    out = co_await role.supervise();
    loop.stop();
  };
  loop_->spawn(live(hopeless, *loop_, gave_up));
  loop_->run();
  ASSERT_TRUE(gave_up);
  EXPECT_THAT(*gave_up, HasSubstr("no descriptors left"));
}

}  // namespace
}  // namespace pons::supervisor
