#include "background.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pons/linux/child.h"

namespace pons::spawner {

namespace {

void be_charged_to(linux::Cgroup& group) {
  if (!group.join_memory()) return;
  constexpr std::string_view kFirst = "1000";
  const linux::UniqueFd file(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (file) (void)linux::write_all(file.get(), kFirst);
}

}  // namespace

Result<Background> Background::start(const std::function<Result<void>(int results)>& work,
                                     linux::Cgroup* charged) {
  linux::Pipe pipe = TRY(linux::create_pipe());
  const pid_t spawner = getpid();
  linux::Forked child = TRY(linux::fork_process());
  if (child.pid == 0) {
    if (!linux::die_with_parent(spawner)) _exit(ECHILD);
    if (charged != nullptr) be_charged_to(*charged);
    const auto done = work(pipe.write_end.get());
    _exit(done ? 0 : (done.error().os_error != 0 ? done.error().os_error : EIO));
  }
  return Background(std::move(child.pidfd), std::move(pipe.read_end));
}

Background::Ended Background::collect() {
  siginfo_t info{};
  Ended ended;
  if (waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0 ||
      info.si_code != CLD_EXITED) {
    ended.killed = true;
    ended.os_error = info.si_status == SIGKILL ? ENOMEM : ECHILD;
    return ended;
  }
  ended.os_error = info.si_status;
  if (auto text = linux::read_all(results_.get(), 65'536); text) ended.results = std::move(*text);
  return ended;
}

void Background::kill() {
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

}  // namespace pons::spawner
