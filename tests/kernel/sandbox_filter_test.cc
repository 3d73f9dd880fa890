// The filter of sandboxes by itself: in a sandbox most of this is refused several times over, by
// capabilities, namespaces and the spawner's own filter, and would hide a hole in this one.

#include "sandbox_filter.h"

#include <errno.h>
#include <linux/netlink.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "forked.h"

namespace pons::spawner {
namespace {

using linux::in_forked_child;

struct Call {
  const char* name;
  long number;
};
#define CALL(name) {#name, SYS_##name}

// By what comes with nobody's namespace: the machine, its kernel, its clock, its memory, others'
// processes.
constexpr Call kRefused[] = {
    CALL(io_uring_setup),
    CALL(io_uring_enter),
    CALL(io_uring_register),
    CALL(add_key),
    CALL(request_key),
    CALL(keyctl),
    CALL(bpf),
    CALL(userfaultfd),
    CALL(perf_event_open),
    CALL(init_module),
    CALL(finit_module),
    CALL(delete_module),
    CALL(kexec_load),
    CALL(kexec_file_load),
    CALL(reboot),
    CALL(mount),
    CALL(umount2),
    CALL(pivot_root),
    CALL(fsopen),
    CALL(fsconfig),
    CALL(fsmount),
    CALL(fspick),
    CALL(open_tree),
    CALL(move_mount),
    CALL(mount_setattr),
    CALL(setns),
    CALL(name_to_handle_at),
    CALL(open_by_handle_at),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(kcmp),
    CALL(pidfd_getfd),
    CALL(settimeofday),
    CALL(clock_settime),
    CALL(clock_adjtime),
    CALL(adjtimex),
    CALL(quotactl),
    CALL(quotactl_fd),
    CALL(swapon),
    CALL(swapoff),
    CALL(acct),
    CALL(syslog),
    CALL(vhangup),
    CALL(fanotify_init),
    CALL(fanotify_mark),
    CALL(move_pages),
    CALL(migrate_pages),
    CALL(setdomainname),
    CALL(personality),
    CALL(memfd_secret),
#if defined(__x86_64__)
    CALL(iopl),
    CALL(ioperm),
    CALL(modify_ldt),
    CALL(ustat),
    CALL(sysfs),
    CALL(uselib),
#endif
};

// With arguments that none of them could use, should it get through.
int expect_refused(const Call& call) {
  errno = 0;
  if (syscall(call.number, -1L, -1L, -1L, -1L, -1L, -1L) == -1 && errno == EPERM) return 0;
  std::fprintf(stderr, "%s: errno %d\n", call.name, errno);
  return 1;
}

int install(NestedUserNamespaces nested) {
  REQUIRE(setsid() > 0);  // no terminal to hang up
  const auto filter = sandbox_filter(nested);
  REQUIRE(filter);
  REQUIRE(filter->install());
  return 0;
}

int refuses() {
  if (install(NestedUserNamespaces::kRefused) != 0) return 1;
  int got_through = 0;
  for (const Call& call : kRefused) got_through += expect_refused(call);
  REQUIRE(got_through == 0);
  for (const long flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC,
                          CLONE_NEWUTS, CLONE_NEWCGROUP, 0x80 /* CLONE_NEWTIME */})
    REQUIRE_ERRNO(syscall(SYS_unshare, flag), EPERM);
  REQUIRE_ERRNO(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0L, 0L, 0L, 0L), EPERM);
  REQUIRE_ERRNO(syscall(SYS_clone3, -1L, -1L), ENOSYS);
  REQUIRE_ERRNO(syscall(SYS_io_setup, -1L, -1L), ENOSYS);
  for (const int family : {AF_PACKET, AF_VSOCK, AF_ALG, AF_KEY, AF_BLUETOOTH, AF_XDP})
    REQUIRE_ERRNO(socket(family, SOCK_RAW, 0), EAFNOSUPPORT);
  REQUIRE_ERRNO(socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT), EAFNOSUPPORT);
  REQUIRE_ERRNO(socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER), EAFNOSUPPORT);
  return 0;
}

TEST(SandboxFilterTest, RefusesByItselfWhatReachesBeyondASandbox) {
  EXPECT_EQ(in_forked_child(refuses), 0);
}

int allows() {
  if (install(NestedUserNamespaces::kRefused) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) _exit(7);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
  for (const int family : {AF_UNIX, AF_INET, AF_INET6})
    REQUIRE(close(socket(family, SOCK_STREAM, 0)) == 0);
  REQUIRE(close(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE)) == 0);
  REQUIRE(unshare(CLONE_FILES) == 0);
  return 0;
}

TEST(SandboxFilterTest, AllowsWhatProgramsLiveBy) {
  EXPECT_EQ(in_forked_child(allows), 0);
}

int allows_nesting() {
  if (install(NestedUserNamespaces::kAllowed) != 0) return 1;
  REQUIRE(unshare(CLONE_NEWUSER) == 0);
  // And nothing more than that takes.
  REQUIRE(expect_refused(CALL(bpf)) == 0);
  REQUIRE(expect_refused(CALL(io_uring_setup)) == 0);
  REQUIRE(expect_refused(CALL(open_tree)) == 0);
  return 0;
}

TEST(SandboxFilterTest, NestingIsAllowedWhereItIsAskedForByName) {
  EXPECT_EQ(in_forked_child(allows_nesting), 0);
}

}  // namespace
}  // namespace pons::spawner
