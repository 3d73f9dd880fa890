#include "undertaker.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/linux/unix_socket.h"

namespace pons::spawner {

namespace {

using linux::UniqueFd;

constexpr int kSocketInChild = 3;
constexpr std::size_t kMessageBytesMax = 8192;
constexpr std::size_t kDescriptorsMax = 32;
constexpr int kAttempts = 200;

// A group can be busy for a moment after its last process has ended.
void remove_group(const std::string& directory) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (rmdir(directory.c_str()) == 0 || errno == ENOENT) return;
    usleep(5000);
  }
  LOG_ERROR("a control group is left behind", {"error", os_error("remove group", directory)});
}

// The groups first: meanwhile the supervisor lets go of its copies of the descriptors.
void take_down(std::span<const std::string_view> groups, std::vector<UniqueFd> descriptors) {
  for (const std::string_view group : groups) remove_group(std::string(group));
  descriptors.clear();
}

void serve(int socket) {
  for (;;) {
    auto message = linux::receive_message(socket, kMessageBytesMax, kDescriptorsMax);
    if (!message) return;
    if (!*message) {
      pollfd ready{.fd = socket, .events = POLLIN, .revents = 0};
      poll(&ready, 1, -1);
      continue;
    }
    auto groups = split((*message)->bytes, '\n');
    std::erase(groups, "");
    take_down(groups, std::move((*message)->descriptors));
  }
}

}  // namespace

Result<Undertaker> Undertaker::start() {
  auto [ours, theirs] = TRY(linux::create_socket_pair(SOCK_SEQPACKET));
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  const long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid < 0) return os_error("start undertaker");
  if (pid == 0) {
    prctl(PR_SET_NAME, "undertaker");
    // It must hold nothing of the spawner's: a copy would keep alive what others have let go.
    if (dup2(theirs.get(), kSocketInChild) < 0) _exit(1);
    close_range(kSocketInChild + 1, ~0U, 0);
    // The spawner is told to stop, and ends it when nothing is left to do.
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    serve(kSocketInChild);
    _exit(0);
  }
  return Undertaker(std::move(ours), UniqueFd(pidfd));
}

void Undertaker::take(Remains remains) {
  const std::string text = fmt::format("{}\n", fmt::join(remains.groups, "\n"));
  std::vector<int> numbers;
  for (const UniqueFd& descriptor : remains.descriptors) numbers.push_back(descriptor.get());
  if (socket_ && linux::send_message(socket_.get(), text, numbers)) return;
  take_down(std::vector<std::string_view>(remains.groups.begin(), remains.groups.end()),
            std::move(remains.descriptors));
}

void Undertaker::finish() {
  socket_.reset();
  siginfo_t info{};
  while (waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0 && errno == EINTR) {
  }
}

}  // namespace pons::spawner
