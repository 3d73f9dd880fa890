#include "pons/linux/aside.h"

#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "pons/base/check.h"

namespace pons::linux {
namespace {

constexpr std::size_t kStackBytes = 512 * 1024;

// Kept for the life of the process: mapping and unmapping it each time would cost more than the
// clone.
char* make_stack() {
  void* const memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  // What runs over the end stops there.
  CHECK(mprotect(memory, 4096, PROT_NONE) == 0);
  return static_cast<char*>(memory);
}

[[noreturn]] void run_body(void* body) {
  (*static_cast<const std::function<void()>*>(body))();
  _exit(0);
}

// clone3 returns in the child on another stack, where nothing of the calling function is: the child
// has to be taken away before any compiled code runs.
long clone_onto_stack(clone_args& arguments, void (*child)(void*), void* body) {
#if defined(__x86_64__)
  register void (*entry)(void*) asm("r12") = child;
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
  register void (*entry)(void*) asm("x19") = child;
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
  static char* const kStack = make_stack();
  arguments.stack = reinterpret_cast<std::uintptr_t>(kStack);
  arguments.stack_size = kStackBytes;
  if (options.cgroup_fd >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(options.cgroup_fd);
  }
  const long pid = clone_onto_stack(arguments, run_body, const_cast<std::function<void()>*>(&body));
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

// ---- a child that goes on after the caller does

namespace {

// Without errno, which is the same for both: while one of them runs on, the other must not write
// it.
long call_kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
#if defined(__x86_64__)
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  long result = number;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
#endif
}

template <class T>
long address(const T* object) {
  return static_cast<long>(reinterpret_cast<std::uintptr_t>(object));
}

struct Departure {
  const std::function<Result<AtEnd>()>* work;
  Result<AtEnd> outcome = AtEnd::kNothing;
  std::atomic<int> is_done;
};

[[noreturn]] void depart(void* argument) {
  auto& departure = *static_cast<Departure*>(argument);
  departure.outcome = (*departure.work)();
  const bool unmount = departure.outcome && *departure.outcome == AtEnd::kUnmount;
  departure.is_done.store(1, std::memory_order_release);
  // From here on the caller runs too, with the same memory.
  call_kernel(SYS_futex, address(&departure.is_done), FUTEX_WAKE_PRIVATE, 1);
  static constexpr char kHere[] = ".";
  if (unmount) call_kernel(SYS_umount2, address(kHere), MNT_DETACH);
  for (;;) call_kernel(SYS_exit);
}

}  // namespace

Result<void> run_aside_and_unmount(const std::function<Result<AtEnd>()>& work) {
  static char* const kStack = make_stack();
  static pid_t departed = 0;
  const auto wait_for = [](pid_t pid) {
    while (pid > 0 && waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  };
  wait_for(std::exchange(departed, 0));
  // Static: the kernel wakes whoever waits there, also after this function has returned.
  static Departure departure;
  departure.work = &work;
  departure.outcome = make_error(ErrorCode::kInternal, "run aside", "the child died");
  departure.is_done.store(0, std::memory_order_relaxed);
  clone_args arguments{};
  arguments.flags = CLONE_VM | CLONE_FILES;
  arguments.exit_signal = SIGCHLD;
  arguments.stack = reinterpret_cast<std::uintptr_t>(kStack);
  arguments.stack_size = kStackBytes;
  const long pid = clone_onto_stack(arguments, depart, &departure);
  if (pid < 0) return os_error("clone process", {}, static_cast<int>(-pid));
  static constexpr timespec kLookAgain{.tv_sec = 0, .tv_nsec = 50'000'000};
  while (departure.is_done.load(std::memory_order_acquire) == 0) {
    call_kernel(SYS_futex, address(&departure.is_done), FUTEX_WAIT_PRIVATE, 0,
                address(&kLookAgain));
    siginfo_t info{};
    if (departure.is_done.load(std::memory_order_acquire) == 0 &&
        call_kernel(SYS_waitid, P_PID, pid, address(&info), WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0)
      break;
  }
  departed = static_cast<pid_t>(pid);
  const auto outcome = std::exchange(departure.outcome, AtEnd::kNothing);
  if (!outcome) return outcome.error();
  return {};
}

}  // namespace pons::linux
