#include "syscalls.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace pons::roles {

namespace {

using linux::ArgumentRule;
using linux::SyscallRule;
using Compare = ArgumentRule::Compare;

constexpr std::uint64_t kAllBits = ~std::uint64_t{0};

SyscallRule with_argument(int number, unsigned argument, std::uint64_t value) {
  return {number, {{argument, Compare::kEqual, kAllBits, value}}};
}

void append(std::vector<SyscallRule>& rules, std::initializer_list<int> numbers) {
  for (const int number : numbers) rules.push_back({number, {}});
}

// Memory, time, threads, the event loop. No process can be started with it: clone passes only with
// CLONE_THREAD, and memory that is writable and executable at once cannot be had.
void append_run(std::vector<SyscallRule>& rules) {
  append(rules, {SYS_brk,
                 SYS_munmap,
                 SYS_mremap,
                 SYS_madvise,
                 SYS_mlock,
                 SYS_munlock,
                 SYS_clock_gettime,
                 SYS_clock_getres,
                 SYS_clock_nanosleep,
                 SYS_nanosleep,
                 SYS_gettimeofday,
                 SYS_getpid,
                 SYS_gettid,
                 SYS_getppid,
                 SYS_getuid,
                 SYS_geteuid,
                 SYS_getgid,
                 SYS_getegid,
                 SYS_futex,
                 SYS_set_robust_list,
                 SYS_rseq,
                 SYS_sched_yield,
                 SYS_sched_getaffinity,
                 SYS_membarrier,
                 SYS_exit,
                 SYS_exit_group,
                 SYS_restart_syscall,
                 SYS_rt_sigaction,
                 SYS_rt_sigprocmask,
                 SYS_rt_sigreturn,
                 SYS_sigaltstack,
                 SYS_read,
                 SYS_readv,
                 SYS_write,
                 SYS_writev,
                 SYS_close,
                 SYS_close_range,
                 SYS_dup,
                 SYS_dup3,
                 SYS_fstat,
                 SYS_lseek,
                 SYS_poll,
                 SYS_ppoll,
                 SYS_epoll_create1,
                 SYS_epoll_ctl,
                 SYS_epoll_wait,
                 SYS_epoll_pwait,
                 SYS_epoll_pwait2,
                 SYS_eventfd2,
                 SYS_timerfd_create,
                 SYS_timerfd_settime,
                 SYS_signalfd4,
                 SYS_pipe2,
                 SYS_getrandom,
                 SYS_capget,
                 SYS_getrlimit,
                 SYS_getrusage,
                 SYS_uname,
                 SYS_sysinfo});
  for (const int protection : {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE}) {
    rules.push_back(with_argument(SYS_mmap, 2, static_cast<std::uint64_t>(protection)));
    rules.push_back(with_argument(SYS_mprotect, 2, static_cast<std::uint64_t>(protection)));
  }
  for (const int option : {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS,
                           PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_PDEATHSIG})
    rules.push_back(with_argument(SYS_prctl, 0, static_cast<std::uint64_t>(option)));
  rules.push_back(with_argument(SYS_prlimit64, 0, 0));  // its own limits only
  // Not F_SETOWN and F_SETSIG, by which the kernel sends signals on a process's behalf.
  for (const int command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL,
                            F_GET_SEALS, F_ADD_SEALS, F_GETLK, F_SETLK, F_OFD_GETLK, F_OFD_SETLK})
    rules.push_back(with_argument(SYS_fcntl, 1, static_cast<std::uint64_t>(command)));
  // abort() signals its own thread; nobody else may be signalled.
  rules.push_back(with_argument(SYS_tgkill, 0, static_cast<std::uint64_t>(getpid())));
  rules.push_back({SYS_clone, {{0, Compare::kMaskedEqual, CLONE_THREAD, CLONE_THREAD}}});
}

// Conversation over sockets that were handed in, and pairs of Unix sockets to hand out. No socket()
// and no bind().
void append_converse(std::vector<SyscallRule>& rules) {
  append(rules, {SYS_accept4, SYS_recvfrom, SYS_recvmsg, SYS_shutdown, SYS_getsockopt,
                 SYS_setsockopt, SYS_getsockname, SYS_getpeername});
  rules.push_back(with_argument(SYS_socketpair, 0, AF_UNIX));
  // TCP Fast Open connects by sending, past every rule about connect: a listener that was handed in
  // would do for it.
  rules.push_back({SYS_sendto, {{3, Compare::kMaskedEqual, MSG_FASTOPEN, 0}}});
  rules.push_back({SYS_sendmsg, {{2, Compare::kMaskedEqual, MSG_FASTOPEN, 0}}});
  // The question by which a self-test tells an empty network namespace from the host's.
  rules.push_back(with_argument(SYS_ioctl, 1, SIOCGIFCONF));
}

void append_files(std::vector<SyscallRule>& rules) {
  append(rules, {SYS_openat,    SYS_newfstatat, SYS_statx,     SYS_faccessat, SYS_faccessat2,
                 SYS_access,    SYS_stat,       SYS_lstat,     SYS_open,      SYS_readlinkat,
                 SYS_readlink,  SYS_getdents64, SYS_getcwd,    SYS_pread64,   SYS_pwrite64,
                 SYS_preadv,    SYS_pwritev,    SYS_ftruncate, SYS_fallocate, SYS_fsync,
                 SYS_fdatasync, SYS_flock,      SYS_rename,    SYS_renameat,  SYS_renameat2,
                 SYS_unlink,    SYS_unlinkat,   SYS_mkdir,     SYS_mkdirat,   SYS_rmdir,
                 SYS_fchmod,    SYS_utimensat,  SYS_statfs,    SYS_fstatfs,   SYS_memfd_create});
}

void append_internet(std::vector<SyscallRule>& rules) {
  rules.push_back(with_argument(SYS_socket, 0, AF_INET));
  rules.push_back(with_argument(SYS_socket, 0, AF_INET6));
  append(rules, {SYS_connect, SYS_recvmmsg});
}

// The spawner's filter is inherited by every sandbox, so it refuses only what neither it nor any
// sandbox may ever do.
constexpr std::array kNeverForSpawner = {
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_ioperm,
    SYS_iopl,
    SYS_syslog,
    SYS_quotactl,
    SYS_nfsservctl,
    SYS_lookup_dcookie,
    SYS_vhangup,
    SYS_open_by_handle_at,
    SYS_personality,
};

}  // namespace

Result<linux::SeccompFilter> make_filter(const Profile& profile) {
  if (profile.syscalls.empty()) {
    std::vector<SyscallRule> refused;
    for (const int number : kNeverForSpawner) refused.push_back({number, {}});
    // Types into a terminal on somebody's behalf. The kernel looks at 32 bits.
    refused.push_back({SYS_ioctl, {{1, Compare::kMaskedEqual, 0xFFFF'FFFF, TIOCSTI}}});
    return linux::SeccompFilter::deny_list(refused);
  }
  std::vector<SyscallRule> rules;
  for (const Syscalls group : profile.syscalls) {
    switch (group) {
      case Syscalls::kRun:
        append_run(rules);
        break;
      case Syscalls::kConverse:
        append_converse(rules);
        break;
      case Syscalls::kFiles:
        append_files(rules);
        break;
      case Syscalls::kInternet:
        append_internet(rules);
        break;
    }
  }
  // glibc falls back to clone, whose flags a filter can see, when clone3 does not exist.
  constexpr std::pair<int, int> kMissing[] = {{SYS_clone3, ENOSYS}};
  return linux::SeccompFilter::allow_list(rules, EPERM, kMissing);
}

}  // namespace pons::roles
