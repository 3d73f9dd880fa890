#include "pons/roles/attempts.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "pons/linux/capabilities.h"
#include "pons/linux/fd.h"

namespace pons::roles {

namespace {

using linux::UniqueFd;
using Context = SelfTestContext;

// A pid that no kernel gives out: reaching "no such process" means that the call itself was
// allowed.
constexpr pid_t kNobody = 0x7FFFFFFF;

int result_of(long returned) {
  return returned < 0 ? errno : 0;
}

int try_open(const std::string& path, int flags) {
  const UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC, 0600));
  return fd ? 0 : errno;
}

int try_socket(int family, int type) {
  const UniqueFd fd(socket(family, type | SOCK_CLOEXEC, 0));
  return fd ? 0 : errno;
}

// ---- programs and processes

int start_program(const Profile&, const Context&) {
  // The unreadable argument list makes a permitted execve end with EFAULT and not in another
  // program.
  syscall(SYS_execve, "/bin/true", reinterpret_cast<char**>(1), nullptr);
  return errno == EFAULT ? 0 : errno;
}

int fork_process(const Profile&, const Context&) {
  const long child = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) _exit(0);
  if (child > 0) waitpid(static_cast<pid_t>(child), nullptr, 0);
  return result_of(child);
}

int trace_nobody(const Profile&, const Context&) {
  return ptrace(PTRACE_CONT, kNobody, nullptr, nullptr) == 0 || errno == ESRCH ? 0 : errno;
}

int trace_supervisor(const Profile&, const Context& context) {
  const long seized = ptrace(PTRACE_SEIZE, context.supervisor, nullptr, nullptr);
  const int error = result_of(seized);
  if (seized == 0) {
    ptrace(PTRACE_INTERRUPT, context.supervisor, nullptr, nullptr);
    waitpid(context.supervisor, nullptr, __WALL);
    ptrace(PTRACE_DETACH, context.supervisor, nullptr, nullptr);
  }
  return error;
}

int read_other_memory(const Profile&, const Context& context) {
  char byte;
  iovec local{&byte, 1}, remote{reinterpret_cast<void*>(0x10000), 1};
  const long got = process_vm_readv(context.supervisor, &local, 1, &remote, 1, 0);
  return got >= 0 || errno == EFAULT ? 0 : errno;
}

int signal_supervisor(const Profile&, const Context& context) {
  const int error = result_of(kill(context.supervisor, 0));
  return error == 0 ? 0 : result_of(tgkill(context.supervisor, context.supervisor, 0));
}

// The kernel would signal the supervisor for us whenever something arrives on the descriptor.
int signal_by_descriptor(const Profile&, const Context& context) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  const UniqueFd one(ends[0]), other(ends[1]);
  return result_of(fcntl(one.get(), F_SETOWN, context.supervisor));
}

int outlive_supervisor(const Profile&, const Context&) {
  int signal = 0;
  prctl(PR_GET_PDEATHSIG, &signal);
  return signal == SIGKILL ? EPERM : 0;
}

int limit_supervisor(const Profile&, const Context& context) {
  rlimit ignored{};
  return result_of(prlimit(context.supervisor, RLIMIT_NOFILE, nullptr, &ignored));
}

int make_code(const Profile&, const Context&) {
  void* page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return errno;
  munmap(page, 4096);
  return 0;
}

// ---- network

int make_ipv4_socket(const Profile&, const Context&) {
  return try_socket(AF_INET, SOCK_STREAM);
}
int make_ipv6_socket(const Profile&, const Context&) {
  return try_socket(AF_INET6, SOCK_DGRAM);
}
int make_unix_socket(const Profile&, const Context&) {
  return try_socket(AF_UNIX, SOCK_STREAM);
}
int make_netlink_socket(const Profile&, const Context&) {
  return try_socket(AF_NETLINK, SOCK_RAW);
}
int make_packet_socket(const Profile&, const Context&) {
  return try_socket(AF_PACKET, SOCK_RAW);
}
int make_vsock_socket(const Profile&, const Context&) {
  return try_socket(AF_VSOCK, SOCK_STREAM);
}

int listen_for_strangers(const Profile&, const Context&) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  sockaddr_in any{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) return errno;
  return result_of(listen(socket.get(), 1));
}

// A local pair ignores the flag; a listener that was handed in would obey it and connect.
int connect_by_sending(const Profile&, const Context&) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  const UniqueFd one(ends[0]), other(ends[1]);
  return result_of(send(one.get(), "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL));
}

// Connecting a UDP socket looks up a route and sends nothing.
int find_route(const Profile&, const Context&) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  sockaddr_in documentation_address{
      .sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(0xC0000201)}};
  return result_of(connect(socket.get(), reinterpret_cast<sockaddr*>(&documentation_address),
                           sizeof documentation_address));
}

// The kernel answers this question on a socket of any family, so it can be asked where no other
// than a Unix pair can be had. An empty namespace has not even the loopback address.
int find_address(const Profile&, const Context&) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  const UniqueFd one(ends[0]), other(ends[1]);
  ifreq entries[8];
  ifconf list{.ifc_len = sizeof entries, .ifc_ifcu = {.ifcu_req = entries}};
  if (ioctl(one.get(), SIOCGIFCONF, &list) != 0) return errno;
  return list.ifc_len == 0 ? ENETDOWN : 0;
}

// ---- files

int read_passwords(const Profile&, const Context&) {
  return try_open("/etc/shadow", O_RDONLY);
}
int read_etc(const Profile&, const Context&) {
  return try_open("/etc/passwd", O_RDONLY);
}
// What some profiles name lies below it; it never is the whole of it.
int look_into_usr(const Profile&, const Context&) {
  const int error = try_open("/usr/share", O_RDONLY | O_DIRECTORY);
  return error == 0 ? 0 : try_open("/usr/bin", O_RDONLY | O_DIRECTORY);
}
// A host without them has nothing that could be read.
int read_zones(const Profile&, const Context&) {
  const int error = try_open("/usr/share/zoneinfo/UTC", O_RDONLY);
  return error == ENOENT ? 0 : error;
}
int read_admin_token(const Profile&, const Context& context) {
  return try_open(context.state_dir + "/admin.token", O_RDONLY);
}
int read_disk(const Profile&, const Context&) {
  int error = ENOENT;
  std::error_code ignored;
  for (const auto& disk : std::filesystem::directory_iterator("/sys/class/block", ignored)) {
    error = try_open("/dev/" + disk.path().filename().string(), O_RDONLY);
    if (error == 0) return 0;
  }
  return error;
}
int set_core_pattern(const Profile&, const Context&) {
  return try_open("/proc/sys/kernel/core_pattern", O_WRONLY);
}
int write_outside(const Profile&, const Context& context) {
  return try_open(context.state_dir + "/written-by-a-role", O_WRONLY | O_CREAT);
}
int read_process_table(const Profile&, const Context& context) {
  return try_open(fmt::format("/proc/{}/environ", context.supervisor), O_RDONLY);
}

// Every other role's state, by path and by climbing up. One that opens is enough.
int read_other_state(const Profile& profile, const Context& context) {
  int error = EPERM;
  for (const Profile& other : profiles()) {
    if (other.role == profile.role) continue;
    for (const std::string& path :
         {fmt::format("{}/{}", context.state_dir, other.name), fmt::format("../{}", other.name)}) {
      error = try_open(path, O_RDONLY | O_DIRECTORY);
      if (error == 0) return 0;
    }
  }
  return error;
}

int write_own_state(const Profile&, const Context&) {
  const int error = try_open("self-test", O_WRONLY | O_CREAT | O_TRUNC);
  if (error == 0) unlink("self-test");
  return error;
}

int open_by_handle(const Profile&, const Context&) {
  file_handle handle{};
  syscall(SYS_open_by_handle_at, AT_FDCWD, &handle, O_RDONLY);
  return errno == EPERM || errno == ENOSYS ? errno : 0;
}

// ---- privileges and kernel surface

int become_root(const Profile&, const Context&) {
  if (getuid() == 0 && geteuid() == 0) return 0;
  return result_of(setresuid(0, 0, 0));
}

int hold_capability(const Profile& profile, const Context&) {
  const auto held = linux::current_capabilities();
  if (!held) return EPERM;
  auto all = held->effective | held->permitted | held->inheritable | held->ambient;
  // The bounding set is what execve may give, and with no_new_privs it gives nothing. Without root
  // it cannot be emptied.
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) all |= held->bounding;
  return (all & ~profile.capabilities) == 0 ? EPERM : 0;
}

int gain_privileges(const Profile&, const Context&) {
  return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? EPERM : 0;
}

int be_dumped(const Profile&, const Context&) {
  rlimit core{};
  getrlimit(RLIMIT_CORE, &core);
  return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 && core.rlim_cur == 0 && core.rlim_max == 0 ? EPERM
                                                                                             : 0;
}

int mount_something(const Profile&, const Context&) {
  // An unknown type is refused after the permission check, so nothing is ever mounted.
  mount("none", ".", "no-such-file-system", 0, nullptr);
  return errno == ENODEV || errno == ENOENT ? 0 : errno;
}

int unshare_user(const Profile&, const Context&) {
  // Flags that contradict each other: permitted, it ends with EINVAL.
  syscall(SYS_unshare, CLONE_NEWUSER | CLONE_THREAD | 0x1);
  return errno == EINVAL ? 0 : errno;
}

int enter_namespace(const Profile&, const Context&) {
  syscall(SYS_setns, -1, 0);
  return errno == EBADF ? 0 : errno;
}

int change_root(const Profile&, const Context&) {
  syscall(SYS_chroot, reinterpret_cast<const char*>(1));
  return errno == EFAULT ? 0 : errno;
}

int load_module(const Profile&, const Context&) {
  syscall(SYS_finit_module, -1, "", 0);
  return errno == EBADF ? 0 : errno;
}

int load_kernel(const Profile&, const Context&) {
  syscall(SYS_kexec_load, 0, 0xFFFF, nullptr, ~0UL);  // too many segments and unknown flags
  return errno == EINVAL ? 0 : errno;
}

int load_bpf(const Profile&, const Context&) {
  syscall(SYS_bpf, 0xFFFF, nullptr, 0);
  return errno == EINVAL || errno == EFAULT ? 0 : errno;
}

int use_io_uring(const Profile&, const Context&) {
  syscall(SYS_io_uring_setup, 0, nullptr);
  return errno == EFAULT || errno == EINVAL ? 0 : errno;
}

int use_keyring(const Profile&, const Context&) {
  syscall(SYS_keyctl, 0xFFFF, 0, 0, 0, 0);
  return errno == EOPNOTSUPP || errno == EINVAL ? 0 : errno;
}

int watch_performance(const Profile&, const Context&) {
  syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0);
  return errno == EFAULT || errno == EINVAL ? 0 : errno;
}

int handle_page_faults(const Profile&, const Context&) {
  const UniqueFd fd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC)));
  return fd ? 0 : errno;
}

// ---- the table

using enum Attempt::Must;

constexpr Attempt kForEveryRole[] = {
    {"capabilities", "holds no capability beyond its profile", hold_capability},
    {"parent_death", "does not outlive the supervisor", outlive_supervisor},
    {"core_dump", "its memory is never written to disk or read by others", be_dumped},
    {"trace_supervisor", "cannot trace the supervisor", trace_supervisor},
    {"read_admin_token", "cannot read the admin token", read_admin_token},
    {"read_other_state", "cannot read another role's state", read_other_state},
    {"read_shadow", "cannot read /etc/shadow", read_passwords},
    {"packet_socket", "cannot see packets", make_packet_socket},
    {"bpf", "cannot load BPF programs", load_bpf},
    {"module", "cannot load kernel modules", load_module},
    {"kexec", "cannot replace the kernel", load_kernel},
    {"io_uring", "cannot use io_uring, which filters do not see", use_io_uring},
    {"keyring", "cannot use kernel keyrings", use_keyring},
    {"perf", "cannot watch the machine by perf", watch_performance},
    {"userfaultfd", "cannot handle page faults", handle_page_faults},
    {"open_by_handle", "cannot open files behind the file system's back", open_by_handle},
};

constexpr Attempt kForFilteredRoles[] = {
    {"execve", "cannot start a program", start_program},
    {"fork", "cannot make a process", fork_process},
    {"ptrace", "cannot trace any process", trace_nobody},
    {"read_memory", "cannot read another process's memory", read_other_memory},
    {"signal", "cannot signal other processes", signal_supervisor},
    {"signal_by_descriptor", "cannot make the kernel signal others", signal_by_descriptor},
    {"fast_open", "cannot connect by sending (TCP Fast Open)", connect_by_sending},
    {"limits", "cannot see or set other processes' limits", limit_supervisor},
    {"writable_code", "cannot make memory that is writable and executable", make_code},
    {"setuid", "cannot become root", become_root},
    {"new_privileges", "can never gain privileges", gain_privileges},
    {"mount", "cannot mount", mount_something},
    {"unshare", "cannot make namespaces", unshare_user},
    {"setns", "cannot enter namespaces", enter_namespace},
    {"chroot", "cannot change its root", change_root},
    {"netlink_socket", "cannot configure the network", make_netlink_socket},
    {"vsock_socket", "cannot talk to virtual machines", make_vsock_socket},
    {"unix_socket", "cannot connect to local services", make_unix_socket},
    {"listen", "cannot open a door to the network", listen_for_strangers},
    {"read_etc", "cannot read files that its profile does not name", read_etc},
    {"read_usr", "cannot look into /usr beyond what its profile names", look_into_usr},
    {"write_outside", "cannot write outside its state directory", write_outside},
    {"read_proc", "cannot read other processes' environment", read_process_table},
};

constexpr Attempt kForOfflineRoles[] = {
    {"ipv4_socket", "cannot create an internet socket (IPv4)", make_ipv4_socket},
    {"ipv6_socket", "cannot create an internet socket (IPv6)", make_ipv6_socket},
};

constexpr Attempt kForIsolatedRoles[] = {
    {"network_address", "sees no address of the host's network", find_address},
};

constexpr Attempt kForOnlineRoles[] = {
    {"internet", "can create an internet socket, which is its work", make_ipv4_socket, kWork},
};

constexpr Attempt kForSpawner[] = {
    {"read_disk", "finds no disk to read behind the file system's back", read_disk},
    {"core_pattern", "cannot change the kernel's settings", set_core_pattern},
    {"route", "has no route to anywhere", find_route},
    {"read_proc", "cannot read other processes' environment", read_process_table},
    {"write_outside", "cannot write into Pons' state directory", write_outside},
};

constexpr Attempt kForWriters[] = {
    {"own_state", "can write its own state directory, which is its work", write_own_state, kWork},
};

constexpr Attempt kForBrain[] = {
    {"zone_files", "can read the rules of time zones, which is its work", read_zones, kWork},
};

bool has(const Profile& profile, Syscalls group) {
  return std::ranges::find(profile.syscalls, group) != profile.syscalls.end();
}

}  // namespace

std::vector<const Attempt*> attempts_for(const Profile& profile) {
  std::vector<const Attempt*> attempts;
  const auto add = [&](std::span<const Attempt> table) {
    for (const Attempt& attempt : table) attempts.push_back(&attempt);
  };
  const bool filtered = !profile.syscalls.empty();
  add(kForEveryRole);
  if (profile.network == Network::kEmptyNamespace) add(kForIsolatedRoles);
  if (!filtered) {
    add(kForSpawner);
    return attempts;
  }
  add(kForFilteredRoles);
  if (has(profile, Syscalls::kInternet)) {
    add(kForOnlineRoles);
  } else {
    add(kForOfflineRoles);
  }
  if (has(profile, Syscalls::kFiles)) add(kForWriters);
  if (profile.role == Role::kBrain) add(kForBrain);
  return attempts;
}

AttemptResult judge(const Attempt& attempt, int os_error) {
  const bool worked = os_error == 0;
  return {.name = std::string(attempt.name),
          .promise = std::string(attempt.promise),
          .os_error = os_error,
          .holds = worked == (attempt.must == kWork)};
}

std::string AttemptResult::answer() const {
  if (os_error == 0) return "it worked";
  const char* symbol = strerrorname_np(os_error);
  if (symbol == nullptr) return fmt::format("error {}", os_error);
  return fmt::format("{} ({})", symbol, std::strerror(os_error));
}

std::vector<AttemptResult> run_self_test(const Profile& profile, const SelfTestContext& context) {
  std::vector<AttemptResult> results;
  for (const Attempt* attempt : attempts_for(profile))
    results.push_back(judge(*attempt, attempt->attempt(profile, context)));
  return results;
}

}  // namespace pons::roles
