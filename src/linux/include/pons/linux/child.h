#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/linux/fd.h"

namespace pons::linux {

// How a process ended. Exactly one of the two says something; neither when another part of this
// process reaped the child.
struct ExitStatus {
  int code = -1;
  int signal = 0;

  bool success() const { return code == 0; }
  std::string describe() const;  // "exit code 3", "killed by signal 9 (Killed)"
};

struct ChildOptions {
  std::vector<std::string> argv;         // argv[0] included
  std::vector<std::string> environment;  // "NAME=value"; nothing is inherited
  // {ours, number in the child}. Everything else is closed; 0, 1 and 2 are /dev/null unless named,
  // so that no file the child opens can become its standard output.
  std::vector<std::pair<int, int>> descriptors;
  int cgroup_fd = -1;  // directory of a v2 cgroup: the child never runs outside of it
};

// A child process by its pidfd: signals cannot reach a stranger that got the same number.
// The destructor kills and reaps it, so no child outlives its owner.
class ChildProcess {
 public:
  // Returns when the program runs, or with the error of exec. The child dies with the calling
  // *thread* (PR_SET_PDEATHSIG follows threads): spawn from one that lives as long as the process.
  // A path below /proc/self/ is resolved here, in the parent: "/proc/self/fd/7" works.
  static Result<ChildProcess> spawn(const std::string& executable_or_fd_path,
                                    const ChildOptions& options);

  ChildProcess(ChildProcess&& other) noexcept = default;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // becomes readable when the process ends
  Result<void> send_signal(int signal) const;

  std::optional<ExitStatus> try_wait();
  std::optional<ExitStatus> wait_until(TimePoint deadline);
  ExitStatus wait();

 private:
  ChildProcess(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  std::optional<ExitStatus> reap(int options);

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  std::optional<ExitStatus> status_;
};

// fork(2) with a descriptor of the child that is readable when it has ended. For processes with one
// thread.
struct Forked {
  pid_t pid = -1;  // 0 in the child
  UniqueFd pidfd;
};
Result<Forked> fork_process();

// Asks the kernel for SIGKILL when the parent ends. An error when `expected_parent` is already
// gone. Setting user ids clears the request: call it again afterwards.
Result<void> die_with_parent(pid_t expected_parent);

}  // namespace pons::linux
