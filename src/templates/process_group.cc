#include "process_group.h"

#include <poll.h>
#include <signal.h>

#include <cerrno>

namespace pons::templates {
namespace {

constexpr int kPatienceMs = 10'000;

}  // namespace

void stop_group(linux::ChildProcess& child) {
  if (child.try_wait()) return;
  kill(-child.pid(), SIGINT);
  pollfd ended{.fd = child.pidfd(), .events = POLLIN, .revents = 0};
  while (poll(&ended, 1, kPatienceMs) < 0 && errno == EINTR) {
  }
  // Before it is waited for: until then nobody else gets its number.
  kill(-child.pid(), SIGKILL);
  (void)child.wait();
}

}  // namespace pons::templates
