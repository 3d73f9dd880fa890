#include "jail.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <clocale>

#include "pons/linux/capabilities.h"
#include "pons/linux/child.h"
#include "pons/linux/mount.h"
#include "pons/linux/namespace.h"
#include "pons/linux/process.h"
#include "pons/linux/seccomp.h"

namespace pons::templates {
namespace {

using linux::NamespaceKind;
using linux::UniqueFd;

constexpr int kJailFailed = 120;
constexpr rlim_t kDescriptorsMax = 256;

constexpr linux::CapabilitySet kFileRights =
    linux::capability(CAP_CHOWN) | linux::capability(CAP_DAC_OVERRIDE) |
    linux::capability(CAP_FOWNER) | linux::capability(CAP_FSETID) | linux::capability(CAP_SETFCAP);

// Writing files needs none of these, and each is a way out or a large surface of the kernel.
constexpr std::array kRefusedCalls = {
    SYS_execve,
    SYS_execveat,
    SYS_clone,
    SYS_clone3,
    SYS_fork,
    SYS_vfork,
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_mount,
    SYS_umount2,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_kill,
    SYS_tkill,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_quotactl,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_sethostname,
    SYS_setdomainname,
};

Result<void> enter_namespaces() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (user != 0) {
    TRY_VOID(linux::unshare_namespaces({NamespaceKind::kUser}));
    const linux::IdMap users[] = {{.inside = 0, .outside = user, .count = 1}};
    const linux::IdMap groups[] = {{.inside = 0, .outside = group, .count = 1}};
    TRY_VOID(linux::write_id_maps(getpid(), users, groups));
  }
  return linux::unshare_namespaces({NamespaceKind::kMount, NamespaceKind::kPid, NamespaceKind::kNet,
                                    NamespaceKind::kIpc, NamespaceKind::kUts});
}

Result<void> enter_directory(const std::string& directory) {
  TRY_VOID(linux::make_mounts_private());
  auto tree = TRY(linux::DetachedMount::clone_tree(directory, linux::MountScope::kOneMount));
  TRY_VOID(tree.set_attributes({.no_suid = true, .no_exec = true, .no_dev = true}));
  TRY_VOID(std::move(tree).attach(AT_FDCWD, directory));
  const UniqueFd root = TRY(linux::open_file(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  return linux::pivot_to(root.get());
}

Result<void> keep_descriptors(int input_fd, int report_fd) {
  const UniqueFd null_device = TRY(linux::open_file("/dev/null", O_RDWR));
  // Above every number that is about to be used.
  const int input = fcntl(input_fd, F_DUPFD_CLOEXEC, 10);
  const int report = fcntl(report_fd, F_DUPFD_CLOEXEC, 10);
  if (input < 0 || report < 0) return os_error("place descriptors");
  // Standard error stays: a sanitizer's or the allocator's last words are worth having.
  if (dup2(null_device.get(), 0) < 0 || dup2(null_device.get(), 1) < 0 ||
      dup2(input, Jail::kInput) < 0 || dup2(report, Jail::kReport) < 0)
    return os_error("place descriptors");
  return {};
}

Result<void> confine(const std::string& directory) {
  TRY_VOID(enter_directory(directory));
  if (close_range(Jail::kReport + 1, ~0U, 0) != 0) return os_error("close descriptors");
  const rlimit descriptors{.rlim_cur = kDescriptorsMax, .rlim_max = kDescriptorsMax};
  if (setrlimit(RLIMIT_NOFILE, &descriptors) != 0) return os_error("limit descriptors");
  TRY_VOID(linux::disable_core_dumps());
  umask(0);
  TRY_VOID(linux::set_no_new_privileges());
  TRY_VOID(linux::keep_only_capabilities(kFileRights));
  std::vector<linux::SyscallRule> refused;
  for (const int number : kRefusedCalls) refused.push_back({number, {}});
  const auto filter = TRY(linux::SeccompFilter::deny_list(refused));
  return filter.install();
}

int run_inside(const std::string& directory, const std::function<int()>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (auto confined = confine(directory); !confined) {
    const std::string words = confined.error().describe() + "\n";
    [[maybe_unused]] const ssize_t wrote = write(STDERR_FILENO, words.data(), words.size());
    return kJailFailed;
  }
  return work();
}

int await_exit(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return kJailFailed;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kJailFailed;
}

// A pid namespace takes effect for children only: the process between waits for the one inside.
int run_between(pid_t parent, const std::string& directory, int input_fd, int report_fd,
                const std::function<int()>& work) {
  if (!linux::die_with_parent(parent)) return kJailFailed;
  // Away from the operator's terminal, which is still standard error: a process of its session
  // could type into it.
  if (setsid() < 0) return kJailFailed;
  // Archives hold names in UTF-8; the program's own locale must not garble them. Needs no file.
  std::setlocale(LC_CTYPE, "C.UTF-8");
  auto ready = keep_descriptors(input_fd, report_fd);
  if (ready) ready = enter_namespaces();
  if (!ready) {
    const std::string words = ready.error().describe() + "\n";
    [[maybe_unused]] const ssize_t wrote = write(STDERR_FILENO, words.data(), words.size());
    return kJailFailed;
  }
  const pid_t inside = fork();
  if (inside < 0) return kJailFailed;
  if (inside == 0) _exit(run_inside(directory, work));
  // The reader must see the end when the one inside is gone.
  close_range(Jail::kInput, ~0U, 0);
  return await_exit(inside);
}

}  // namespace

Result<Jail> Jail::start(const std::string& directory, int input_fd, int report_fd,
                         const std::function<int()>& work) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return os_error("start extraction");
  if (pid == 0) _exit(run_between(parent, directory, input_fd, report_fd, work));
  return Jail(pid);
}

Jail::~Jail() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  await_exit(pid_);
}

int Jail::wait() {
  return await_exit(std::exchange(pid_, -1));
}

}  // namespace pons::templates
