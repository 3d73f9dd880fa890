#include "pons/linux/child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/linux/signals.h"

namespace pons::linux {
namespace {

constexpr int kDescriptorNumberMax = 1023;
constexpr std::chrono::seconds kExecDeadline{10};

enum class Step : int { kParentGone, kMoveDescriptor, kCloseDescriptors, kExec };

const char* name_of(Step step) {
  switch (step) {
    case Step::kParentGone:
      return "tie child to parent";
    case Step::kMoveDescriptor:
      return "place child descriptor";
    case Step::kCloseDescriptors:
      return "close child descriptors";
    case Step::kExec:
      return "execute";
  }
  return "start child";
}

struct FailureReport {
  Step step;
  int error;
};

struct Placement {
  int source;
  int target;
};

// Everything the child needs, made before it exists: between clone and exec it must not allocate,
// lock or throw, since another thread may have held the allocator at the moment of the clone.
struct ChildPlan {
  const char* path;
  int executable = -1;  // when set, executed in place of the path
  std::vector<char*> argv;
  std::vector<char*> environment;
  std::vector<Placement> placements;  // by target, ascending
  int report;
  pid_t parent;
};

[[noreturn]] void fail(int report, Step step) {
  const FailureReport failure{step, errno};
  [[maybe_unused]] const ssize_t wrote = write(report, &failure, sizeof failure);
  _exit(127);
}

// Leaves exactly the planned descriptors without close-on-exec. Marking instead of closing keeps
// the report pipe and the executable usable until exec.
void place_descriptors(ChildPlan& plan) {
  // A source may have the number of another one's target: all of them step aside first.
  const int above = plan.placements.back().target + 1;
  const auto move_up = [&](int& fd) {
    fd = fcntl(fd, F_DUPFD_CLOEXEC, above);
    return fd >= 0;
  };
  int report = plan.report;
  if (!move_up(report)) fail(plan.report, Step::kMoveDescriptor);
  plan.report = report;
  if (plan.executable >= 0 && !move_up(plan.executable)) fail(report, Step::kMoveDescriptor);
  for (Placement& placement : plan.placements) {
    if (!move_up(placement.source)) fail(report, Step::kMoveDescriptor);
  }
  unsigned gap = 0;
  for (const Placement& placement : plan.placements) {
    const auto target = static_cast<unsigned>(placement.target);
    if (target > gap && close_range(gap, target - 1, CLOSE_RANGE_CLOEXEC) != 0)
      fail(report, Step::kCloseDescriptors);
    if (dup2(placement.source, placement.target) < 0) fail(report, Step::kMoveDescriptor);
    gap = target + 1;
  }
  if (close_range(gap, ~0U, CLOSE_RANGE_CLOEXEC) != 0) fail(report, Step::kCloseDescriptors);
}

[[noreturn]] void run_child(ChildPlan& plan) {
  // The parent may have died before the request was in place; then nothing would ever kill us.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != plan.parent)
    fail(plan.report, Step::kParentGone);
  reset_signals();
  place_descriptors(plan);
  if (plan.executable >= 0)
    execveat(plan.executable, "", plan.argv.data(), plan.environment.data(), AT_EMPTY_PATH);
  else
    execve(plan.path, plan.argv.data(), plan.environment.data());
  fail(plan.report, Step::kExec);
}

Result<std::vector<char*>> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) {
    if (word.find('\0') != std::string::npos)
      return make_error(ErrorCode::kInvalid, "start child", "an argument contains a zero byte");
    pointers.push_back(const_cast<char*>(word.c_str()));  // exec takes char* and does not write
  }
  pointers.push_back(nullptr);
  return pointers;
}

Result<std::vector<Placement>> plan_descriptors(const ChildOptions& options, int null_device) {
  std::vector<Placement> placements;
  for (const auto& [source, target] : options.descriptors) {
    if (source < 0 || target < 0 || target > kDescriptorNumberMax)
      return make_error(ErrorCode::kInvalid, "start child",
                        fmt::format("descriptor {} cannot become number {}", source, target));
    placements.push_back({source, target});
  }
  for (int standard = 0; standard <= 2; ++standard) {
    if (std::ranges::find(placements, standard, &Placement::target) == placements.end())
      placements.push_back({null_device, standard});
  }
  std::ranges::sort(placements, {}, &Placement::target);
  if (std::ranges::adjacent_find(placements, {}, &Placement::target) != placements.end())
    return make_error(ErrorCode::kInvalid, "start child",
                      "two descriptors have the same number in the child");
  return placements;
}

int poll_until(int fd, TimePoint deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto bounded = std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 60'000);
    pollfd poll_entry{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&poll_entry, 1, static_cast<int>(bounded));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return ready;
    if (std::chrono::steady_clock::now() >= deadline) return 0;
  }
}

// The pipe closes by itself when exec succeeds.
Result<void> await_exec(int report, const std::string& path) {
  if (poll_until(report, std::chrono::steady_clock::now() + kExecDeadline) == 0)
    return make_error(ErrorCode::kTimeout, "execute", path + " did not start in time");
  FailureReport failure{};
  ssize_t got;
  do {
    got = read(report, &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return {};
  if (got != static_cast<ssize_t>(sizeof failure)) return os_error("read child report", path);
  return os_error(name_of(failure.step), path, failure.error);
}

}  // namespace

std::string ExitStatus::describe() const {
  if (signal != 0) return fmt::format("killed by signal {} ({})", signal, strsignal(signal));
  if (code >= 0) return fmt::format("exit code {}", code);
  return "ended, and its status was taken elsewhere";
}

Result<ChildProcess> ChildProcess::spawn(const std::string& executable_or_fd_path,
                                         const ChildOptions& options) {
  if (options.argv.empty() || executable_or_fd_path.find('\0') != std::string::npos)
    return make_error(ErrorCode::kInvalid, "start child", "a path and argv[0] are needed");
  const UniqueFd null_device = TRY(open_file("/dev/null", O_RDWR));
  Pipe report = TRY(create_pipe());
  UniqueFd executable;
  if (executable_or_fd_path.starts_with("/proc/self/"))
    executable = TRY(open_file(executable_or_fd_path, O_PATH));

  ChildPlan plan{.path = executable_or_fd_path.c_str(),
                 .executable = executable.get(),
                 .argv = TRY(pointers_to(options.argv)),
                 .environment = TRY(pointers_to(options.environment)),
                 .placements = TRY(plan_descriptors(options, null_device.get())),
                 .report = report.write_end.get(),
                 .parent = getpid()};

  int pidfd = -1;
  clone_args arguments{};
  // Handlers of this process must not run on the child's copy of its memory.
  arguments.flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND;
  arguments.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  if (options.cgroup_fd >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(options.cgroup_fd);
  }
  const long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid < 0) return os_error("clone process", executable_or_fd_path);
  if (pid == 0) run_child(plan);

  ChildProcess child(static_cast<pid_t>(pid), UniqueFd(pidfd));
  report.write_end.reset();
  TRY_VOID(await_exec(report.read_end.get(), executable_or_fd_path));
  return child;
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  ChildProcess incoming(std::move(other));
  std::swap(pid_, incoming.pid_);
  std::swap(pidfd_, incoming.pidfd_);
  std::swap(status_, incoming.status_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (!pidfd_ || status_) return;
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  wait();
}

Result<void> ChildProcess::send_signal(int signal) const {
  if (syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0) != 0)
    return os_error("send signal", fmt::format("to process {}", pid_));
  return {};
}

std::optional<ExitStatus> ChildProcess::reap(int options) {
  if (status_) return status_;
  siginfo_t info{};
  int outcome;
  do {
    outcome = waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | options);
  } while (outcome != 0 && errno == EINTR);
  if (outcome != 0) {
    CHECK(errno == ECHILD);
    status_ = ExitStatus{};
  } else if (info.si_pid != 0) {
    status_ = info.si_code == CLD_EXITED ? ExitStatus{.code = info.si_status, .signal = 0}
                                         : ExitStatus{.code = -1, .signal = info.si_status};
  }
  return status_;
}

std::optional<ExitStatus> ChildProcess::try_wait() {
  return reap(WNOHANG);
}

std::optional<ExitStatus> ChildProcess::wait_until(TimePoint deadline) {
  if (!status_) poll_until(pidfd_.get(), deadline);
  return reap(WNOHANG);
}

ExitStatus ChildProcess::wait() {
  return *reap(0);
}

Result<Forked> fork_process() {
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  const long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid < 0) return os_error("fork process");
  return Forked{.pid = static_cast<pid_t>(pid), .pidfd = UniqueFd(pid == 0 ? -1 : pidfd)};
}

Result<void> die_with_parent(pid_t expected_parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return os_error("tie process to parent");
  if (getppid() != expected_parent)
    return make_error(ErrorCode::kUnavailable, "tie process to parent",
                      fmt::format("process {} has already ended", expected_parent));
  return {};
}

}  // namespace pons::linux
