#include "pons/linux/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace pons::linux {
namespace {

TEST(SignalFd, HandsOutPendingSignalsAndThenNothing) {
  auto signals = SignalFd::create({SIGUSR1, SIGUSR2});
  ASSERT_TRUE(signals) << signals.error().describe();
  EXPECT_EQ(signals->take(), std::nullopt);
  raise(SIGUSR2);
  EXPECT_EQ(signals->take(), SIGUSR2);
  EXPECT_EQ(signals->take(), std::nullopt);
}

TEST(SignalFd, RefusesANumberThatIsNoSignal) {
  EXPECT_FALSE(SignalFd::create({4096}));
}

TEST(Signals, WritingToAClosedPipeIsAnErrorAfterIgnoring) {
  ignore_sigpipe();
  auto pipe = *create_pipe();
  pipe.read_end.reset();
  EXPECT_EQ(write(pipe.write_end.get(), "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST(Signals, ResetEmptiesTheMaskAndRestoresDefaults) {
  EXPECT_EXIT(
      {
        ignore_sigpipe();
        sigset_t mask;
        sigfillset(&mask);
        sigprocmask(SIG_SETMASK, &mask, nullptr);
        reset_signals();
        sigprocmask(SIG_SETMASK, nullptr, &mask);
        if (sigismember(&mask, SIGTERM) == 1) _exit(1);
        raise(SIGPIPE);
        _exit(2);
      },
      ::testing::KilledBySignal(SIGPIPE), "");
}

}  // namespace
}  // namespace pons::linux
