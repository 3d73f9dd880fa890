#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

namespace pons::linux {

// Runs a body that confines, unshares or ends its process in a child of its own, and returns its
// exit code, or minus the signal that ended it. The child leaves by _exit: destructors of the test
// program must not run twice.
inline int in_forked_child(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd entry{.fd = pidfd, .events = POLLIN, .revents = 0};
  if (poll(&entry, 1, 60'000) != 1) kill(pid, SIGKILL);
  close(pidfd);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

inline int say_failed(const char* condition, int line) {
  std::fprintf(stderr, "in the child, line %d: %s (errno %d)\n", line, condition, errno);
  return 1;
}

// An empty directory that is gone afterwards, whoever owns what is in it.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    char name[] = "/tmp/pons-kernel-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    path_ = name;
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::string make_directory(const std::string& name) const {
    std::filesystem::create_directory(*this / name);
    return *this / name;
  }

 private:
  std::string path_;
};

}  // namespace pons::linux

// In the body of a forked child: ends it with code 1 and says which line.
#define REQUIRE(condition)                                                    \
  do {                                                                        \
    errno = 0;                                                                \
    if (!(condition)) return ::pons::linux::say_failed(#condition, __LINE__); \
  } while (false)
// The call is refused with exactly this errno.
#define REQUIRE_ERRNO(call, expected)                                                           \
  do {                                                                                          \
    errno = 0;                                                                                  \
    if ((call) != -1 || errno != (expected)) return ::pons::linux::say_failed(#call, __LINE__); \
  } while (false)
