#include "pons/linux/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace pons::linux {

Result<SignalFd> SignalFd::create(std::initializer_list<int> signals) {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : signals) {
    if (sigaddset(&mask, signal) != 0) return os_error("watch signals", "no such signal");
  }
  UniqueFd fd(signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd) return os_error("watch signals");
  if (const int error = pthread_sigmask(SIG_BLOCK, &mask, nullptr); error != 0)
    return os_error("block signals", {}, error);
  return SignalFd(std::move(fd));
}

std::optional<int> SignalFd::take() {
  signalfd_siginfo info{};
  ssize_t got;
  do {
    got = read(fd_.get(), &info, sizeof info);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

void ignore_sigpipe() {
  struct sigaction action{};
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

void reset_signals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  // SIGKILL, SIGSTOP and the two that glibc keeps for itself refuse, and are at their default.
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace pons::linux
