#include "progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "pons/linux/fd.h"

namespace pons::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ProgressBarTest, ALogHasALineForEachThingThatIsDone) {
  testing::internal::CaptureStderr();
  {
    ProgressBar bar("base");
    for (const std::uint64_t done : {0, 1, 2})
      bar.show({.what = "unpack", .done = done, .total = 9});
    bar.show({.what = "seal\x1b[2J", .done = 0, .total = 0});
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.starts_with("base: unpack\nbase: seal")) << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

// Standard error is a terminal for as long as this lives.
class TerminalAsError {
 public:
  TerminalAsError() : before_(dup(STDERR_FILENO)) {
    int master = -1;
    int slave = -1;
    EXPECT_EQ(openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
    master_ = linux::UniqueFd(master);
    const linux::UniqueFd terminal(slave);
    EXPECT_EQ(dup2(terminal.get(), STDERR_FILENO), STDERR_FILENO);
  }
  TerminalAsError(const TerminalAsError&) = delete;
  TerminalAsError& operator=(const TerminalAsError&) = delete;
  ~TerminalAsError() { dup2(before_.get(), STDERR_FILENO); }

  // What was written since the last time, at least something.
  std::string read_some() {
    std::array<char, 4096> buffer{};
    const ssize_t size = read(master_.get(), buffer.data(), buffer.size());
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size))};
  }

 private:
  linux::UniqueFd before_;
  linux::UniqueFd master_;
};

TEST(ProgressBarTest, ATerminalHasOneLineThatIsWrittenOverAndGoesAway) {
  TerminalAsError terminal;
  std::string half, many, last;
  {
    ProgressBar bar("base");
    bar.show({.what = "unpack", .done = 5, .total = 10});
    half = terminal.read_some();
    bar.show({.what = "fetch", .done = 1U << 20, .total = 2U << 20});
    many = terminal.read_some();
  }
  (void)fflush(stderr);
  last = terminal.read_some();
  EXPECT_THAT(
      half, AllOf(HasSubstr("base: unpack [############............] 5/10"), Not(HasSubstr("\n"))));
  EXPECT_TRUE(many.starts_with("\r\x1b[K")) << many;
  EXPECT_THAT(many, AllOf(HasSubstr("[############............] "), HasSubstr("MiB")));
  EXPECT_THAT(last, EndsWith("\r\x1b[K"));
}

}  // namespace
}  // namespace pons::cli
