#include "background.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pons::spawner {

Result<Background> Background::start(const std::function<Result<void>(int results)>& work) {
  linux::Pipe pipe = TRY(linux::create_pipe());
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  const pid_t spawner = getpid();
  const long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid < 0) return os_error("start background work");
  if (pid == 0) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != spawner) _exit(ECHILD);
    const auto done = work(pipe.write_end.get());
    _exit(done ? 0 : (done.error().os_error != 0 ? done.error().os_error : EIO));
  }
  return Background(linux::UniqueFd(pidfd), std::move(pipe.read_end));
}

Background::Ended Background::collect() {
  siginfo_t info{};
  Ended ended;
  if (waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0 ||
      info.si_code != CLD_EXITED) {
    ended.os_error = ECHILD;
    return ended;
  }
  ended.os_error = info.si_status;
  if (auto text = linux::read_all(results_.get(), 65'536); text) ended.results = std::move(*text);
  return ended;
}

}  // namespace pons::spawner
