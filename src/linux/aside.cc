#include "pons/linux/aside.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pons/base/check.h"

namespace pons::linux {
namespace {

constexpr std::size_t kStackBytes = 512 * 1024;

// Kept for the life of the process: mapping and unmapping it each time would cost more than the
// clone.
char* stack() {
  static char* const kStack = [] {
    void* const memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    // What runs over the end stops there.
    CHECK(mprotect(memory, 4096, PROT_NONE) == 0);
    return static_cast<char*>(memory);
  }();
  return kStack;
}

[[noreturn]] void run_body(void* body) {
  (*static_cast<const std::function<void()>*>(body))();
  _exit(0);
}

// clone3 returns in the child on another stack, where nothing of the calling function is: the child
// has to be taken away before any compiled code runs.
long clone_onto_stack(clone_args& arguments, void* body) {
#if defined(__x86_64__)
  register void (*entry)(void*) asm("r12") = run_body;
  register void* argument asm("r13") = body;
  long result = SYS_clone3;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r13, %%rdi\n\t"
      "call *%%r12\n\t"
      "ud2\n"
      "1:"
      : "+a"(result)
      : "D"(&arguments), "S"(sizeof arguments), "r"(entry), "r"(argument)
      : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long number asm("x8") = SYS_clone3;
  register long result asm("x0") = reinterpret_cast<long>(&arguments);
  register long size asm("x1") = sizeof arguments;
  register void (*entry)(void*) asm("x19") = run_body;
  register void* argument asm("x20") = body;
  asm volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x20\n\t"
      "blr x19\n\t"
      "brk #0\n"
      "1:"
      : "+r"(result)
      : "r"(number), "r"(size), "r"(entry), "r"(argument)
      : "memory");
  return result;
#else
#error "clone3 on a new stack is not written for this processor"
#endif
}

}  // namespace

Result<AsideChild> start_aside(const AsideOptions& options, const std::function<void()>& body) {
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_PIDFD | options.namespaces;
  arguments.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  arguments.stack = reinterpret_cast<std::uintptr_t>(stack());
  arguments.stack_size = kStackBytes;
  if (options.cgroup_fd >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(options.cgroup_fd);
  }
  const long pid = clone_onto_stack(arguments, const_cast<std::function<void()>*>(&body));
  if (pid < 0) return os_error("clone process", {}, static_cast<int>(-pid));
  return AsideChild{.pid = static_cast<pid_t>(pid), .pidfd = UniqueFd(pidfd)};
}

Result<void> run_aside(const std::function<Result<void>()>& work) {
  Result<void> outcome = make_error(ErrorCode::kInternal, "run aside", "the child died");
  const AsideChild child = TRY(start_aside({}, [&] { outcome = work(); }));
  while (waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return outcome;
}

}  // namespace pons::linux
