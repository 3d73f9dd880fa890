#include "cell_process.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/linux/capabilities.h"
#include "pons/linux/namespace.h"
#include "pons/linux/process.h"
#include "pons/linux/signals.h"
#include "pons/spawner/left_out.h"

namespace pons::spawner {

namespace {

using linux::capability;
using linux::DetachedMount;
using linux::MountScope;
using linux::UniqueFd;

constexpr int kListenerInCell = 3;
constexpr char kName[] = "sandbox";
constexpr rlim_t kOpenFilesSoft = 1024;
constexpr rlim_t kOpenFilesHard = 16'384;

// What root in a rootless container has. Not in it: SYS_ADMIN, with which a sandbox could undo its
// mounts, SYS_PTRACE, NET_ADMIN, NET_RAW, MKNOD, and everything about the machine. The cell keeps
// SYS_ADMIN until it has set the name of the sandbox, and starts nothing with it.
constexpr linux::CapabilitySet kSandboxCapabilities =
    capability(CAP_CHOWN) | capability(CAP_DAC_OVERRIDE) | capability(CAP_FOWNER) |
    capability(CAP_FSETID) | capability(CAP_KILL) | capability(CAP_SETGID) |
    capability(CAP_SETUID) | capability(CAP_SETPCAP) | capability(CAP_NET_BIND_SERVICE) |
    capability(CAP_SYS_CHROOT) | capability(CAP_SETFCAP) | capability(CAP_AUDIT_WRITE);

// What tells about the host or acts on it. Each is closed to the sandbox's users by its owner and
// mode too, as is all the rest of /proc that belongs to the host's root.
constexpr const char* kMaskedFiles[] = {"kcore",       "keys",          "key-users",
                                        "timer_list",  "sysrq-trigger", "latency_stats",
                                        "sched_debug", "interrupts",    "kallsyms"};
constexpr const char* kMaskedDirectories[] = {"acpi", "scsi", "asound", "bus", "fs", "irq"};

bool exists(int directory, const char* name) {
  struct stat info{};
  return fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

// A place for a mount. Names are the template's: a link there leads nowhere.
Result<void> attach_below(int root, const char* name, DetachedMount mount) {
  const UniqueFd place(openat(root, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!place) return os_error("find mount point", name);
  return std::move(mount).attach(place.get(), "");
}

// Clones of what the spawner has staged, made while its mounts can still be seen.
struct Parts {
  DetachedMount sys;
  DetachedMount dev;
  std::vector<std::pair<std::string, DetachedMount>> host;
  std::vector<std::pair<const char*, DetachedMount>> masks;  // what they are laid over in /proc
};

Result<Parts> clone_parts(const StagedTrees& trees, bool show_host) {
  Parts parts{.sys = TRY(trees.sys()), .dev = TRY(trees.dev()), .host = {}, .masks = {}};
  if (show_host)
    for (const std::string& name : trees.host_names())
      parts.host.emplace_back(name, TRY(trees.host(name)));
  if (is_protection_left_out("masks")) return parts;
  const UniqueFd proc = TRY(linux::open_file("/proc", O_PATH | O_DIRECTORY));
  for (const char* name : kMaskedFiles)
    if (exists(proc.get(), name)) parts.masks.emplace_back(name, TRY(trees.blank_file()));
  for (const char* name : kMaskedDirectories)
    if (exists(proc.get(), name)) parts.masks.emplace_back(name, TRY(trees.blank_directory()));
  return parts;
}

// The kernel's settings can be read; what tells about the host, or acts on it, cannot be reached
// even if the owner check failed.
Result<void> mount_proc(int root, Parts& parts) {
  auto mount = TRY(DetachedMount::new_filesystem("proc", {}));
  TRY_VOID(mount.set_attributes({.no_suid = true, .no_exec = true, .no_dev = true}));
  const UniqueFd proc = TRY(linux::duplicate(mount.fd()));
  TRY_VOID(attach_below(root, "proc", std::move(mount)));
  const UniqueFd settings(openat(proc.get(), "sys", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!settings) return os_error("open /proc/sys");
  auto sealed = TRY(DetachedMount::clone_tree(settings.get(), MountScope::kOneMount));
  TRY_VOID(sealed.set_attributes({.read_only = !is_protection_left_out("sealed_settings"),
                                  .no_suid = true,
                                  .no_exec = true,
                                  .no_dev = true}));
  TRY_VOID(std::move(sealed).attach(settings.get(), ""));
  for (auto& [name, blank] : parts.masks) TRY_VOID(std::move(blank).attach(proc.get(), name));
  return {};
}

Result<void> mount_dev(int root, const CellStart& start, Parts& parts) {
  const UniqueFd dev = TRY(linux::duplicate(parts.dev.fd()));
  TRY_VOID(attach_below(root, "dev", std::move(parts.dev)));
  // All terminals of the host together are bounded: one sandbox must not take them all.
  std::vector<std::pair<std::string, std::string>> terminals = {
      {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", "128"}};
  if (start.privileges == Privileges::kHostRoot) {
    const std::uint32_t terminal_group = first_id_of(start.ground.slot) + 5;  // "tty" in Debian
    terminals.emplace_back("gid", std::to_string(terminal_group));
  }
  auto pts = TRY(DetachedMount::new_filesystem("devpts", terminals));
  TRY_VOID(pts.set_attributes({.no_suid = true, .no_exec = true}));
  TRY_VOID(attach_below(dev.get(), "pts", std::move(pts)));
  const std::pair<std::string, std::string> memory[] = {
      {"mode", "1777"}, {"size", std::to_string(start.shared_memory_bytes)}, {"nr_inodes", "4096"}};
  auto shm = TRY(DetachedMount::new_filesystem("tmpfs", memory));
  TRY_VOID(shm.set_attributes({.no_suid = true, .no_dev = true}));
  return attach_below(dev.get(), "shm", std::move(shm));
}

// The old root is empty, and /proc is laid over it for good.
Result<void> pivot_from_bare(int root) {
  const UniqueFd place(openat(root, "proc", O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!place) return os_error("find mount point", "proc");
  return linux::pivot_over(root, place.get());
}

// With as little of the spawner's in it as can be.
Result<UniqueFd> enter_new_mount_namespace(const StagedTrees& trees) {
  const UniqueFd processes = TRY(linux::open_file("/proc", O_PATH | O_DIRECTORY));
  if (trees.bare_namespace() >= 0 && setns(trees.bare_namespace(), CLONE_NEWNS) != 0)
    return os_error("enter mount namespace");
  TRY_VOID(linux::unshare_namespaces({linux::NamespaceKind::kMount}));
  UniqueFd own(openat(processes.get(), "self/ns/mnt", O_RDONLY | O_CLOEXEC));
  if (!own) return os_error("open mount namespace");
  return own;
}

Result<void> set_identity(Privileges privileges) {
  const bool only_user = privileges == Privileges::kOwnNamespace;
  const std::uint32_t id = only_user ? kOnlyUser : 0;
  // Groups are refused for ever in a user namespace that a user made.
  const bool groups_left = syscall(SYS_setgroups, 0, nullptr) == 0 || only_user;
  if (!groups_left || syscall(SYS_setresgid, id, id, id) != 0 ||
      syscall(SYS_setresuid, id, id, id) != 0)
    return os_error("become a user of the sandbox");
  return {};
}

Result<void> set_process_limits(const CellStart& start) {
  // The kernel counts a user's processes in each user namespace apart.
  const rlimit processes{.rlim_cur = start.processes_max, .rlim_max = start.processes_max};
  if (start.processes_max != 0 && setrlimit(RLIMIT_NPROC, &processes) != 0)
    return os_error("set process limits");
  const rlimit files{.rlim_cur = kOpenFilesSoft, .rlim_max = kOpenFilesHard};
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  if (setrlimit(RLIMIT_NOFILE, &files) != 0 || setrlimit(RLIMIT_CORE, &none) != 0)
    return os_error("set process limits");
  return {};
}

// Everything but 0, 1, 2 and the listener is gone after exec.
Result<void> place_descriptors(const CellStart& start) {
  // Leaves the spawner's table with its lowest descriptors only. A copy of all of it would be as
  // long as there are sandboxes, and would stay with the cell.
  const int last = std::max({start.listener, start.null_device, start.program});
  if (close_range(static_cast<unsigned>(last) + 1, ~0U, CLOSE_RANGE_UNSHARE) != 0)
    return os_error("leave descriptor table");
  const UniqueFd program = TRY(linux::duplicate(start.program));
  const int listener = fcntl(start.listener, F_DUPFD_CLOEXEC, 16);
  const int null = fcntl(start.null_device, F_DUPFD_CLOEXEC, 16);
  const int executable = fcntl(program.get(), F_DUPFD_CLOEXEC, 16);
  if (listener < 0 || null < 0 || executable < 0) return os_error("place descriptors");
  for (int standard = 0; standard <= 2; ++standard)
    if (dup2(null, standard) < 0) return os_error("place descriptors");
  if (dup2(listener, kListenerInCell) < 0) return os_error("place descriptors");
  if (close_range(kListenerInCell + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
    return os_error("place descriptors");
  if (is_protection_left_out("descriptors"))
    for (int fd = kListenerInCell + 1; fd <= last; ++fd) (void)fcntl(fd, F_SETFD, 0);
  // Not earlier: the table is still the spawner's, which holds more than a sandbox may.
  TRY_VOID(set_process_limits(start));
  char name[] = "cell";
  char login[] = "login";
  char* const argv[] = {name, start.login_shell ? login : nullptr, nullptr};
  char* const environment[] = {nullptr};
  execveat(executable, "", argv, environment, AT_EMPTY_PATH);
  return os_error("execute the cell");
}

// The life of a sandbox's first process up to its own program, in this order. It is the host's root
// in new pid, mount, ipc and network namespaces of the host's user namespace, until it enters the
// sandbox's own user namespace: from there on it has power over nothing that was made before.
Outcome<> become_cell(CellStart& start, UniqueFd& mount_namespace) {
  if (start.die_with_spawner && prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    return failed(Step::kClone, os_error("die with spawner"));
  if (start.cgroup != nullptr && start.cgroup->directory_fd() < 0)
    STEP_VOID(Step::kJoinCgroup, start.cgroup->join(0));
  if (!is_protection_left_out("cgroup_namespace"))
    STEP_VOID(Step::kCgroupNamespace, linux::unshare_namespaces({linux::NamespaceKind::kCgroup}));
  {
    Parts parts = STEP(Step::kStagedTrees, clone_parts(start.trees, start.show_host));
    mount_namespace = STEP(Step::kMountNamespace, enter_new_mount_namespace(start.trees));
    const UniqueFd root = STEP(Step::kPivot, linux::duplicate(start.root.fd()));
    STEP_VOID(Step::kPivot, std::move(start.root).attach(AT_FDCWD, "root"));
    const bool bare = start.trees.bare_namespace() >= 0;
    if (bare) STEP_VOID(Step::kPivot, pivot_from_bare(root.get()));
    STEP_VOID(Step::kProc, mount_proc(root.get(), parts));
    STEP_VOID(Step::kSys, attach_below(root.get(), "sys", std::move(parts.sys)));
    STEP_VOID(Step::kDev, mount_dev(root.get(), start, parts));
    for (auto& [name, tree] : parts.host)
      STEP_VOID(Step::kHostTree, attach_below(root.get(), name.c_str(), std::move(tree)));
    if (!bare) STEP_VOID(Step::kPivot, linux::pivot_to(root.get()));
  }
  if (!is_protection_left_out("user_namespace") &&
      setns(start.ground.user_namespace.get(), CLONE_NEWUSER) != 0)
    return failed(Step::kEnterUser, os_error("enter user namespace"));
  STEP_VOID(Step::kUts, linux::unshare_namespaces({linux::NamespaceKind::kUts}));
  STEP_VOID(Step::kIdentity, set_identity(start.privileges));
  const bool only_user = start.privileges == Privileges::kOwnNamespace;
  // Who is not root loses every capability with the next program. This name is the last anyone
  // gives to such a sandbox.
  if (only_user && sethostname(kName, sizeof kName - 1) != 0)
    return failed(Step::kUts, os_error("name the sandbox"));
  const linux::CapabilitySet until_claim = only_user ? 0 : capability(CAP_SYS_ADMIN);
  if (!is_protection_left_out("capabilities"))
    STEP_VOID(Step::kCapabilities,
              linux::keep_only_capabilities(kSandboxCapabilities | until_claim));
  if ((!start.allow_setuid || only_user) && !is_protection_left_out("no_new_privileges"))
    STEP_VOID(Step::kCapabilities, linux::set_no_new_privileges());
  if (!is_protection_left_out("seccomp")) STEP_VOID(Step::kSeccomp, start.filter.install());
  // Changes of user and capabilities take it away.
  if (start.die_with_spawner && prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    return failed(Step::kClone, os_error("die with spawner"));
  umask(022);
  linux::reset_signals();
  return failed(Step::kExecute, place_descriptors(start).error());
}

}  // namespace

Outcome<CellProcess> start_cell(CellStart start) {
  CellProcess process;
  Outcome<> outcome;
  // Entered before the clone: the namespace was made beforehand and belongs to the host.
  if (!is_protection_left_out("net_namespace") &&
      setns(start.ground.net_namespace.get(), CLONE_NEWNET) != 0)
    return failed(Step::kNetNamespace, os_error("enter network namespace"));
  const std::uint64_t ipc = is_protection_left_out("ipc_namespace") ? 0 : CLONE_NEWIPC;
  const std::uint64_t pids = is_protection_left_out("pid_namespace") ? 0 : CLONE_NEWPID;
  auto child =
      linux::start_aside({.namespaces = pids | ipc,
                          .cgroup_fd = start.cgroup == nullptr ? -1 : start.cgroup->directory_fd()},
                         [&] { outcome = become_cell(start, process.mount_namespace); });
  CHECK(setns(start.home_net_namespace, CLONE_NEWNET) == 0);
  if (!child) return failed(Step::kClone, child.error());
  if (!outcome) {
    while (waitpid(child->pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return std::unexpected(outcome.error());
  }
  process.child = std::move(*child);
  return process;
}

}  // namespace pons::spawner
