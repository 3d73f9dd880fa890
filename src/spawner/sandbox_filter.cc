#include "sandbox_filter.h"

#include <linux/netlink.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <vector>

namespace pons::spawner {

namespace {

using linux::ArgumentRule;
using linux::SyscallRule;
using Compare = ArgumentRule::Compare;

// Left out on purpose: io_uring, keyrings, bpf, userfaultfd, perf, modules, kexec, mounts of every
// kind, namespaces by setns, open_by_handle_at, ptrace's relatives that read other processes
// (process_vm_*, kcmp, pidfd_getfd), clocks, quotas, swap, raw I/O ports, vhangup, lookup_dcookie.
constexpr int kAllowed[] = {
    // files
    SYS_read,
    SYS_write,
    SYS_close,
    SYS_fstat,
    SYS_lseek,
    SYS_pread64,
    SYS_pwrite64,
    SYS_readv,
    SYS_writev,
    SYS_dup,
    SYS_sendfile,
    SYS_fcntl,
    SYS_flock,
    SYS_fsync,
    SYS_fdatasync,
    SYS_truncate,
    SYS_ftruncate,
    SYS_getcwd,
    SYS_chdir,
    SYS_fchdir,
    SYS_fchmod,
    SYS_fchown,
    SYS_umask,
    SYS_statfs,
    SYS_fstatfs,
    SYS_chroot,
    SYS_sync,
    SYS_readahead,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_getxattr,
    SYS_lgetxattr,
    SYS_fgetxattr,
    SYS_listxattr,
    SYS_llistxattr,
    SYS_flistxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_getdents64,
    SYS_fadvise64,
    SYS_openat,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_fchownat,
    SYS_newfstatat,
    SYS_unlinkat,
    SYS_renameat,
    SYS_linkat,
    SYS_symlinkat,
    SYS_readlinkat,
    SYS_fchmodat,
    SYS_faccessat,
    SYS_pselect6,
    SYS_ppoll,
    SYS_splice,
    SYS_tee,
    SYS_sync_file_range,
    SYS_vmsplice,
    SYS_utimensat,
    SYS_fallocate,
    SYS_dup3,
    SYS_pipe2,
    SYS_preadv,
    SYS_pwritev,
    SYS_syncfs,
    SYS_renameat2,
    SYS_copy_file_range,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_statx,
    SYS_close_range,
    SYS_openat2,
    SYS_faccessat2,
    SYS_inotify_add_watch,
    SYS_inotify_rm_watch,
    SYS_inotify_init1,
    SYS_memfd_create,
    // memory
    SYS_mmap,
    SYS_mprotect,
    SYS_munmap,
    SYS_brk,
    SYS_mremap,
    SYS_msync,
    SYS_mincore,
    SYS_madvise,
    SYS_mlock,
    SYS_munlock,
    SYS_mlockall,
    SYS_munlockall,
    SYS_mlock2,
    SYS_membarrier,
    SYS_pkey_mprotect,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
    SYS_mbind,
    SYS_remap_file_pages,
    // processes, users, limits
    SYS_sched_yield,
    SYS_getpid,
    SYS_execve,
    SYS_exit,
    SYS_wait4,
    SYS_kill,
    SYS_uname,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_times,
    SYS_ptrace,
    SYS_getuid,
    SYS_getgid,
    SYS_setuid,
    SYS_setgid,
    SYS_geteuid,
    SYS_getegid,
    SYS_setpgid,
    SYS_getppid,
    SYS_setsid,
    SYS_setreuid,
    SYS_setregid,
    SYS_getgroups,
    SYS_setgroups,
    SYS_setresuid,
    SYS_getresuid,
    SYS_setresgid,
    SYS_getresgid,
    SYS_getpgid,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_getsid,
    SYS_capget,
    SYS_capset,
    SYS_sigaltstack,
    SYS_getpriority,
    SYS_setpriority,
    SYS_sched_setparam,
    SYS_sched_getparam,
    SYS_sched_setscheduler,
    SYS_sched_getscheduler,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_rr_get_interval,
    SYS_prctl,
    SYS_setrlimit,
    SYS_gettid,
    SYS_tkill,
    SYS_futex,
    SYS_sched_setaffinity,
    SYS_sched_getaffinity,
    SYS_set_tid_address,
    SYS_exit_group,
    SYS_tgkill,
    SYS_waitid,
    SYS_ioprio_set,
    SYS_ioprio_get,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_getcpu,
    SYS_prlimit64,
    SYS_sched_setattr,
    SYS_sched_getattr,
    SYS_seccomp,
    SYS_getrandom,
    SYS_execveat,
    SYS_rseq,
    SYS_pidfd_send_signal,
    SYS_pidfd_open,
    SYS_sethostname,
    SYS_landlock_create_ruleset,
    SYS_landlock_add_rule,
    SYS_landlock_restrict_self,
    SYS_process_mrelease,
    SYS_futex_waitv,
    SYS_process_madvise,
    // signals and time
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_rt_sigqueueinfo,
    SYS_rt_sigsuspend,
    SYS_rt_tgsigqueueinfo,
    SYS_nanosleep,
    SYS_getitimer,
    SYS_setitimer,
    SYS_gettimeofday,
    SYS_restart_syscall,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_gettime,
    SYS_timer_getoverrun,
    SYS_timer_delete,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_signalfd4,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_eventfd2,
    // events and sockets (socket itself: see below)
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_create1,
    SYS_epoll_pwait2,
    SYS_connect,
    SYS_accept,
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_shutdown,
    SYS_bind,
    SYS_listen,
    SYS_getsockname,
    SYS_getpeername,
    SYS_setsockopt,
    SYS_getsockopt,
    SYS_accept4,
    SYS_recvmmsg,
    SYS_sendmmsg,
    // System V and POSIX interprocess communication, in the sandbox's own namespace
    SYS_ioctl,
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_shmdt,
    SYS_semget,
    SYS_semop,
    SYS_semctl,
    SYS_semtimedop,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_mq_timedsend,
    SYS_mq_timedreceive,
    SYS_mq_notify,
    SYS_mq_getsetattr,
    // newer than the headers this is built with: fchmodat2, mseal, cachestat, map_shadow_stack
    452,
    462,
    451,
    453,
};

#if defined(__x86_64__)
// Older forms of the above, which newer processors do not have.
constexpr int kAllowedOldForms[] = {SYS_open,
                                    SYS_stat,
                                    SYS_lstat,
                                    SYS_poll,
                                    SYS_access,
                                    SYS_pipe,
                                    SYS_select,
                                    SYS_dup2,
                                    SYS_getdents,
                                    SYS_rename,
                                    SYS_mkdir,
                                    SYS_rmdir,
                                    SYS_creat,
                                    SYS_link,
                                    SYS_unlink,
                                    SYS_symlink,
                                    SYS_readlink,
                                    SYS_chmod,
                                    SYS_chown,
                                    SYS_lchown,
                                    SYS_utime,
                                    SYS_mknod,
                                    SYS_utimes,
                                    SYS_futimesat,
                                    SYS_inotify_init,
                                    SYS_fork,
                                    SYS_vfork,
                                    SYS_getpgrp,
                                    SYS_arch_prctl,
                                    SYS_set_thread_area,
                                    SYS_get_thread_area,
                                    SYS_pause,
                                    SYS_alarm,
                                    SYS_time,
                                    SYS_signalfd,
                                    SYS_eventfd,
                                    SYS_epoll_create,
                                    SYS_epoll_wait,
                                    SYS_epoll_ctl_old,
                                    SYS_epoll_wait_old};
#endif

constexpr std::uint64_t kNamespaceFlags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                                          CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                                          CLONE_NEWCGROUP;

// Netlink is there to be asked about interfaces (getaddrinfo does); nothing in the namespace can be
// changed by the sandbox's users. Not there: packet sockets, VSOCK, ALG and the like.
void append_sockets(std::vector<SyscallRule>& rules) {
  for (const std::uint64_t family : {AF_UNIX, AF_INET, AF_INET6})
    rules.push_back({SYS_socket, {{0, Compare::kEqual, 0, family}}});
  rules.push_back({SYS_socketpair, {{0, Compare::kEqual, 0, AF_UNIX}}});
  rules.push_back(
      {SYS_socket, {{0, Compare::kEqual, 0, AF_NETLINK}, {2, Compare::kEqual, 0, NETLINK_ROUTE}}});
}

}  // namespace

Result<linux::SeccompFilter> sandbox_filter(NestedUserNamespaces nested) {
  std::vector<SyscallRule> rules;
  for (const int number : kAllowed) rules.push_back({number, {}});
#if defined(__x86_64__)
  for (const int number : kAllowedOldForms) rules.push_back({number, {}});
#endif
  append_sockets(rules);
  if (nested == NestedUserNamespaces::kAllowed) {
    for (const int number :
         {SYS_clone, SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root})
      rules.push_back({number, {}});
  } else {
    rules.push_back({SYS_clone, {{0, Compare::kMaskedEqual, kNamespaceFlags, 0}}});
    // For clone this bit is part of the signal number.
    constexpr std::uint64_t kForUnshare = kNamespaceFlags | CLONE_NEWTIME;
    rules.push_back({SYS_unshare, {{0, Compare::kMaskedEqual, kForUnshare, 0}}});
  }
  // The kernel's asynchronous I/O has one budget for the whole host; programs do without it. sudo
  // goes on without the kernel's audit where there is none, and not where it may not use it.
  constexpr std::pair<int, int> kMissing[] = {
      {SYS_clone3, ENOSYS}, {SYS_io_setup, ENOSYS}, {SYS_socket, EAFNOSUPPORT}};
  return linux::SeccompFilter::allow_list(rules, EPERM, kMissing);
}

}  // namespace pons::spawner
