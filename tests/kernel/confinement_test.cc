#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <thread>

#include "forked.h"
#include "pons/linux/capabilities.h"
#include "pons/linux/child.h"
#include "pons/linux/fd.h"
#include "pons/linux/landlock.h"
#include "pons/linux/process.h"
#include "pons/linux/seccomp.h"
#include "pons/linux/unix_socket.h"

namespace pons::linux {
namespace {

constexpr uid_t kNobody = 65534;

// ---- Landlock

class LandlockTest : public ::testing::Test {
 protected:
  LandlockTest() {
    scratch_.make_directory("inside");
    scratch_.make_directory("inside/a");
    scratch_.make_directory("inside/b");
    scratch_.make_directory("readable");
    for (const char* name : {"inside/file", "readable/file", "outside"})
      EXPECT_TRUE(write_file_atomically(scratch_ / name, "text", 0600));
  }
  LandlockRules rules() const {
    return {.paths = {{scratch_ / "inside", PathAccess::kReadWriteTree},
                      {scratch_ / "readable", PathAccess::kReadTree}}};
  }
  int open_scratch(const std::string& name, int flags) const {
    return open((scratch_ / name).c_str(), flags | O_CLOEXEC, 0600);
  }
  ScratchDirectory scratch_;
};

TEST_F(LandlockTest, FilesOutsideAreRefusedAndInsideWork) {
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(set_no_new_privileges());
              REQUIRE(restrict_with_landlock(rules()));
              REQUIRE_ERRNO(open_scratch("outside", O_RDONLY), EACCES);
              REQUIRE_ERRNO(open("/etc/passwd", O_RDONLY), EACCES);
              REQUIRE_ERRNO(open("/", O_RDONLY | O_DIRECTORY), EACCES);
              REQUIRE(open_scratch("readable/file", O_RDONLY) >= 0);
              REQUIRE_ERRNO(open_scratch("readable/file", O_WRONLY), EACCES);
              REQUIRE_ERRNO(open_scratch("readable/new", O_WRONLY | O_CREAT), EACCES);
              REQUIRE_ERRNO(truncate((scratch_ / "readable/file").c_str(), 0), EACCES);
              REQUIRE(open_scratch("inside/a/new", O_WRONLY | O_CREAT | O_TRUNC) >= 0);
              REQUIRE(rename((scratch_ / "inside/a/new").c_str(),
                             (scratch_ / "inside/b/new").c_str()) == 0);
              REQUIRE(unlink((scratch_ / "inside/b/new").c_str()) == 0);
              return 0;
            }),
            0);
}

TEST_F(LandlockTest, NothingIsExecutableAndNoDeviceCanBeMade) {
  EXPECT_EQ(in_forked_child([&] {
              std::filesystem::copy_file("/bin/true", scratch_ / "inside/true");
              REQUIRE(set_no_new_privileges());
              REQUIRE(restrict_with_landlock(rules()));
              char* const argv[] = {nullptr};
              REQUIRE_ERRNO(execve((scratch_ / "inside/true").c_str(), argv, argv), EACCES);
              REQUIRE_ERRNO(mknod((scratch_ / "inside/null").c_str(), S_IFCHR | 0600, 0x103),
                            EACCES);
              REQUIRE_ERRNO(mkfifo((scratch_ / "inside/fifo").c_str(), 0600), EACCES);
              return 0;
            }),
            0);
}

TEST_F(LandlockTest, OneFileIsOneFile) {
  EXPECT_EQ(
      in_forked_child([&] {
        REQUIRE(set_no_new_privileges());
        REQUIRE(restrict_with_landlock({.paths = {{scratch_ / "outside", PathAccess::kReadFile},
                                                  {"/dev/null", PathAccess::kReadWriteTree}}}));
        REQUIRE(open_scratch("outside", O_RDONLY) >= 0);
        REQUIRE_ERRNO(open_scratch("outside", O_WRONLY), EACCES);
        REQUIRE_ERRNO(open_scratch("inside/file", O_RDONLY), EACCES);
        REQUIRE(open("/dev/null", O_RDWR | O_TRUNC) >= 0);
        return 0;
      }),
      0);
}

TEST_F(LandlockTest, AMissingPathIsNamedAndNothingIsRestricted) {
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(set_no_new_privileges());
              const auto refused = restrict_with_landlock(
                  {.paths = {{scratch_ / "missing", PathAccess::kReadTree}}});
              REQUIRE(!refused && refused.error().code == ErrorCode::kNotFound);
              REQUIRE(refused.error().message == scratch_ / "missing");
              const auto directory =
                  restrict_with_landlock({.paths = {{scratch_ / "inside", PathAccess::kReadFile}}});
              REQUIRE(!directory && directory.error().code == ErrorCode::kInvalid);
              REQUIRE(open("/etc/passwd", O_RDONLY) >= 0);
              return 0;
            }),
            0);
}

TEST_F(LandlockTest, NeedsNoNewPrivileges) {
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(!restrict_with_landlock(rules()));
              REQUIRE(open("/etc/passwd", O_RDONLY) >= 0);
              return 0;
            }),
            0);
}

int tcp_attempt(int (*call)(int, const sockaddr*, socklen_t), std::uint16_t port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return call(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

TEST_F(LandlockTest, OnlyListedPortsCanBeUsed) {
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(set_no_new_privileges());
              REQUIRE(restrict_with_landlock({.tcp_connect_ports = {1}, .tcp_bind_ports = {0}}));
              REQUIRE_ERRNO(tcp_attempt(connect, 1), ECONNREFUSED);  // allowed, nobody there
              REQUIRE_ERRNO(tcp_attempt(connect, 2), EACCES);
              REQUIRE(tcp_attempt(bind, 0) == 0);
              REQUIRE_ERRNO(tcp_attempt(bind, 2), EACCES);
              return 0;
            }),
            0);
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(set_no_new_privileges());
              REQUIRE(restrict_with_landlock({.any_tcp_connect = true}));
              REQUIRE_ERRNO(tcp_attempt(connect, 2), ECONNREFUSED);
              REQUIRE_ERRNO(tcp_attempt(bind, 0), EACCES);
              return 0;
            }),
            0);
}

TEST_F(LandlockTest, SignalsDoNotLeaveTheDomain) {
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(kill(getppid(), 0) == 0);
              REQUIRE(set_no_new_privileges());
              const auto report = restrict_with_landlock({});
              REQUIRE(report && report->scoped);
              REQUIRE_ERRNO(kill(getppid(), 0), EPERM);
              return 0;
            }),
            0);
}

TEST_F(LandlockTest, OlderKernelsEnforceLessAndSaySo) {
  for (int abi = 1; abi <= std::min(landlock_abi(), 7); ++abi) {
    EXPECT_EQ(in_forked_child([&] {
                REQUIRE(set_no_new_privileges());
                const auto report = restrict_with_landlock(rules(), abi);
                REQUIRE(report && report->abi == abi && report->filesystem);
                REQUIRE(report->truncate == (abi >= 3) && report->network == (abi >= 4));
                REQUIRE(report->ioctl_dev == (abi >= 5) && report->scoped == (abi >= 6));
                REQUIRE_ERRNO(open_scratch("outside", O_RDONLY), EACCES);
                REQUIRE((truncate((scratch_ / "outside").c_str(), 4) == 0) == !report->truncate);
                REQUIRE((tcp_attempt(bind, 0) == 0) == !report->network);
                REQUIRE((kill(getppid(), 0) == 0) == !report->scoped);
                return 0;
              }),
              0)
        << "ABI " << abi;
  }
  EXPECT_EQ(in_forked_child([&] {
              const auto report = restrict_with_landlock(rules(), 0);
              REQUIRE(report && report->abi == 0 && !report->filesystem);
              return 0;
            }),
            0);
}

// ---- seccomp

// What the sanitizers and the exit of a test process need.
std::vector<SyscallRule> basic_calls() {
  return {{SYS_read},   {SYS_write},        {SYS_close},        {SYS_mmap},
          {SYS_munmap}, {SYS_mprotect},     {SYS_madvise},      {SYS_futex},
          {SYS_exit},   {SYS_exit_group},   {SYS_rt_sigaction}, {SYS_rt_sigprocmask},
          {SYS_gettid}, {SYS_getpid},       {SYS_sigaltstack},  {SYS_set_robust_list},
          {SYS_rseq},   {SYS_sched_yield},  {SYS_prlimit64},    {SYS_sched_getaffinity},
          {SYS_openat}, {SYS_newfstatat},   {SYS_readlink},     {SYS_getrandom},
          {SYS_tgkill}, {SYS_rt_sigreturn}, {SYS_brk},          {SYS_clock_nanosleep},
          {SYS_pipe},   {SYS_pipe2}};
}

TEST(SeccompTest, ForeignCallsAndFamiliesAreRefusedWithTheirErrno) {
  auto rules = basic_calls();
  rules.push_back({SYS_socket, {{.argument = 0, .value = AF_UNIX}}});
  const std::pair<int, int> unknown[] = {{SYS_clone3, ENOSYS}, {SYS_socket, EAFNOSUPPORT}};
  const auto filter = SeccompFilter::allow_list(rules, EPERM, unknown);
  ASSERT_TRUE(filter) << filter.error().describe();
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(set_no_new_privileges());
              REQUIRE(filter->install());
              REQUIRE_ERRNO(syscall(SYS_uname, nullptr), EPERM);
              REQUIRE_ERRNO(syscall(SYS_clone3, nullptr, 0), ENOSYS);
              REQUIRE_ERRNO(socket(AF_INET, SOCK_STREAM, 0), EAFNOSUPPORT);
              REQUIRE_ERRNO(socket(AF_NETLINK, SOCK_RAW, 0), EAFNOSUPPORT);
              // The kernel would read the low half only: AF_UNIX with bits above is not AF_UNIX
              // here.
              REQUIRE_ERRNO(syscall(SYS_socket, (1UL << 32) | AF_UNIX, SOCK_STREAM, 0),
                            EAFNOSUPPORT);
              REQUIRE(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
              return 0;
            }),
            0);
}

TEST(SeccompTest, ThreadsStartWhileProcessesDoNot) {
  auto rules = basic_calls();
  rules.push_back({SYS_clone,
                   {{.argument = 0,
                     .compare = ArgumentRule::Compare::kMaskedEqual,
                     .mask = CLONE_THREAD,
                     .value = CLONE_THREAD}}});
  const std::pair<int, int> unknown[] = {{SYS_clone3, ENOSYS}};  // glibc then falls back to clone
  const auto filter = SeccompFilter::allow_list(rules, EPERM, unknown);
  ASSERT_TRUE(filter);
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(set_no_new_privileges());
              REQUIRE(filter->install());
              bool ran = false;
              std::thread([&] { ran = true; }).join();
              REQUIRE(ran);
              REQUIRE_ERRNO(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), EPERM);
              REQUIRE_ERRNO(syscall(SYS_fork), EPERM);
              REQUIRE_ERRNO(syscall(SYS_vfork), EPERM);
              return 0;
            }),
            0);
}

TEST(SeccompTest, EveryThreadGetsTheFilter) {
  const SyscallRule denied[] = {{SYS_uname}};
  const auto filter = SeccompFilter::deny_list(denied, EXDEV);
  ASSERT_TRUE(filter);
  EXPECT_EQ(in_forked_child([&] {
              Pipe go = *create_pipe();
              int other_errno = 0;
              std::thread other([&] {
                char byte;
                [[maybe_unused]] const ssize_t got = read(go.read_end.get(), &byte, 1);
                syscall(SYS_uname, nullptr);
                other_errno = errno;
              });
              REQUIRE(set_no_new_privileges());
              const auto installed = filter->install();
              [[maybe_unused]] const ssize_t put = write(go.write_end.get(), "x", 1);
              other.join();
              REQUIRE(installed);
              REQUIRE(other_errno == EXDEV);
              REQUIRE(getpid() > 0);
              return 0;
            }),
            0);
}

TEST(SeccompTest, NeedsNoNewPrivilegesWithoutRoot) {
  const SyscallRule denied[] = {{SYS_uname}};
  const auto filter = SeccompFilter::deny_list(denied);
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(become_user(kNobody, kNobody));
              const auto refused = filter->install();
              REQUIRE(!refused && refused.error().os_error == EACCES);
              return 0;
            }),
            0);
}

#if defined(__x86_64__)
TEST(SeccompTest, ForeignArchitecturesAreKilled) {
  const SyscallRule denied[] = {{SYS_uname}};
  const auto filter = SeccompFilter::deny_list(denied);
  // int 0x80 is the i386 gate: number 20 is getpid there and writev here.
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(set_no_new_privileges());
              REQUIRE(filter->install());
              long outcome = 20;
              __asm__ volatile("int $0x80" : "+a"(outcome) : : "memory", "r8", "r9", "r10", "r11");
              return 0;
            }),
            -SIGSYS);
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(set_no_new_privileges());
              REQUIRE(filter->install());
              syscall(0x40000000 | SYS_getpid);  // x32
              return 0;
            }),
            -SIGSYS);
}
#endif

// ---- capabilities and users

TEST(CapabilitiesTest, WhatIsNotKeptIsGoneFromEverySet) {
  EXPECT_EQ(in_forked_child([] {
              const CapabilitySet keep = capability(CAP_NET_BIND_SERVICE) |
                                         capability(CAP_SYS_RESOURCE);  // not held everywhere
              const auto before = *current_capabilities();
              REQUIRE(keep_only_capabilities(keep));
              const auto after = *current_capabilities();
              REQUIRE(after.effective == (before.permitted & keep));
              REQUIRE(after.permitted == (before.permitted & keep));
              REQUIRE(after.bounding == (before.bounding & keep));
              REQUIRE(after.inheritable == 0 && after.ambient == 0);
              REQUIRE_ERRNO(syscall(SYS_chroot, "/"), EPERM);
              REQUIRE_ERRNO(syscall(SYS_sethostname, "x", 1), EPERM);
              return 0;
            }),
            0);
}

TEST(CapabilitiesTest, AmbientOnesAreCutToo) {
  EXPECT_EQ(in_forked_child([] {
              __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
              __user_cap_data_struct data[2] = {};
              REQUIRE(syscall(SYS_capget, &header, data) == 0);
              data[0].inheritable = 1U << CAP_NET_RAW;
              REQUIRE(syscall(SYS_capset, &header, data) == 0);
              REQUIRE(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0) == 0);
              REQUIRE(current_capabilities()->ambient == capability(CAP_NET_RAW));
              REQUIRE(keep_only_capabilities(0));
              const auto after = *current_capabilities();
              REQUIRE(after.ambient == 0 && after.inheritable == 0 && after.bounding == 0);
              return 0;
            }),
            0);
}

// A set-user-id copy of cat reads its own status: what an exec gives back is seen there.
TEST(CapabilitiesTest, ASetUserIdProgramBringsNothingBack) {
  ScratchDirectory scratch;
  const std::string program = scratch / "cat";
  std::filesystem::copy_file("/bin/cat", program);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  ASSERT_EQ(chmod(scratch.path().c_str(), 0755), 0);
  const auto capabilities_after_exec = [&](bool drop) {
    Pipe pipe = *create_pipe();
    EXPECT_EQ(in_forked_child([&] {
                if (drop)
                  REQUIRE(keep_only_capabilities(capability(CAP_SETUID) | capability(CAP_SETGID)));
                REQUIRE(become_user(kNobody, kNobody));
                auto child =
                    ChildProcess::spawn(program, {.argv = {"cat", "/proc/self/status"},
                                                  .descriptors = {{pipe.write_end.get(), 1}}});
                REQUIRE(child && child->wait().success());
                return 0;
              }),
              0);
    pipe.write_end.reset();
    const std::string status = *read_all(pipe.read_end.get(), 1 << 16);
    const auto at = status.find("CapEff:\t");
    return at == std::string::npos ? "" : status.substr(at + 8, 16);
  };
  EXPECT_NE(capabilities_after_exec(false), "0000000000000000");  // the attack works without
  const CapabilitySet rest = capability(CAP_SETUID) | capability(CAP_SETGID);
  EXPECT_EQ(std::stoull(capabilities_after_exec(true), nullptr, 16) & ~rest, 0U);
}

TEST(CapabilitiesTest, WithoutTheRightToCutTheBoundingSetNoNewPrivilegesIsNeeded) {
  EXPECT_EQ(in_forked_child([] {
              REQUIRE(become_user(kNobody, kNobody));
              const auto refused = keep_only_capabilities(0);
              REQUIRE(!refused && refused.error().code == ErrorCode::kDenied);
              REQUIRE(set_no_new_privileges());
              REQUIRE(keep_only_capabilities(0));
              return 0;
            }),
            0);
}

TEST(BecomeUserTest, ThereIsNoWayBack) {
  EXPECT_EQ(in_forked_child([] {
              REQUIRE(become_user(kNobody, kNobody));
              REQUIRE(getuid() == kNobody && geteuid() == kNobody && getegid() == kNobody);
              REQUIRE(getgroups(0, nullptr) == 0);
              REQUIRE_ERRNO(setuid(0), EPERM);
              REQUIRE_ERRNO(setresuid(-1, 0, -1), EPERM);
              REQUIRE_ERRNO(setgid(0), EPERM);
              REQUIRE_ERRNO(open("/etc/shadow", O_RDONLY), EACCES);
              REQUIRE(current_capabilities()->permitted == 0);
              REQUIRE(!become_user(0, 0));
              return 0;
            }),
            0);
}

TEST(BecomeUserTest, OnlyWhatIsKeptSurvives) {
  EXPECT_EQ(in_forked_child([] {
              const CapabilitySet keep = capability(CAP_NET_BIND_SERVICE);
              REQUIRE(become_user(kNobody, kNobody, keep));
              REQUIRE(current_capabilities()->effective == keep);
              REQUIRE(current_capabilities()->permitted == keep);
              REQUIRE_ERRNO(setuid(0), EPERM);
              return 0;
            }),
            0);
}

// ---- dying with the parent

TEST(ParentDeathTest, ASpawnedChildDiesWithItsParent) {
  Pipe pipe = *create_pipe();
  EXPECT_EQ(in_forked_child([&] {
              auto child =
                  ChildProcess::spawn("/bin/sh", {.argv = {"sh", "-c", "printf x; exec sleep 1000"},
                                                  .environment = {"PATH=/bin:/usr/bin"},
                                                  .descriptors = {{pipe.write_end.get(), 1}}});
              REQUIRE(child);
              kill(getpid(), SIGKILL);  // no destructor runs
              return 0;
            }),
            -SIGKILL);
  // The shell may die before its first byte; either way the pipe closes.
  pipe.write_end.reset();
  const auto text = read_all(pipe.read_end.get(), 16);
  EXPECT_TRUE(text && text->size() <= 1);
}

TEST(ParentDeathTest, TheRequestHasToBeRepeatedAfterBecomingAUser) {
  Pipe pipe = *create_pipe();
  EXPECT_EQ(in_forked_child([&] {
              const pid_t parent = getpid();
              if (fork() == 0) {
                if (!die_with_parent(parent) || !become_user(kNobody, kNobody)) _exit(1);
                int signal = 0;
                prctl(PR_GET_PDEATHSIG, &signal);
                if (signal != 0 || !die_with_parent(parent)) _exit(2);
                [[maybe_unused]] const ssize_t put = write(pipe.write_end.get(), "x", 1);
                for (;;) pause();
              }
              pipe.write_end.reset();
              char byte;
              REQUIRE(read(pipe.read_end.get(), &byte, 1) == 1);
              return 0;
            }),
            0);
  pipe.write_end.reset();
  EXPECT_EQ(*read_all(pipe.read_end.get(), 16), "");
}

}  // namespace
}  // namespace pons::linux
