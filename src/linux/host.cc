#include "pons/linux/host.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "pons/linux/cgroup.h"
#include "pons/linux/fd.h"
#include "pons/linux/io_throttle.h"
#include "pons/linux/landlock.h"
#include "pons/linux/mount.h"
#include "pons/linux/namespace.h"
#include "pons/linux/nftables.h"

namespace pons::linux {
namespace {

constexpr int kProbeTimeoutMs = 10'000;  // the first use of a feature may load a kernel module

// Probes that change namespaces run in a child, so that this process keeps its own.
bool succeeds_in_child(bool (*probe)()) {
  const pid_t pid = fork();
  if (pid < 0) return false;
  if (pid == 0) _exit(probe() ? 0 : 1);
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd entry{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  if (!pidfd || poll(&entry, 1, kProbeTimeoutMs) != 1) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool probe_user_namespaces() {
  // Some hosts allow the namespace and take its capabilities: only the second step tells.
  return unshare_namespaces({NamespaceKind::kUser}).has_value() &&
         unshare_namespaces({NamespaceKind::kNet}).has_value();
}

bool probe_nftables() {
  // Without privileges it takes a user namespace around it.
  if (!unshare_namespaces({NamespaceKind::kNet}) &&
      !unshare_namespaces({NamespaceKind::kUser, NamespaceKind::kNet}))
    return false;
  auto rules = Nftables::open();
  return rules && rules->redirect_outgoing({.tcp = 1, .dns = 1}).has_value();
}

enum class Mounting : std::uint8_t { kRefused, kAsUser, kAsRoot };

// A mount namespace of its own. Without privileges it takes a user namespace around it.
Mounting enter_own_mounts() {
  const IdMap uid[] = {{.inside = 0, .outside = geteuid(), .count = 1}};
  const IdMap gid[] = {{.inside = 0, .outside = getegid(), .count = 1}};
  const bool privileged = unshare_namespaces({NamespaceKind::kMount}).has_value();
  // Who has no id inside a user namespace can create no file there.
  if (!privileged && (!unshare_namespaces({NamespaceKind::kUser, NamespaceKind::kMount}) ||
                      !write_id_maps(getpid(), uid, gid)))
    return Mounting::kRefused;
  if (!make_mounts_private()) return Mounting::kRefused;
  return privileged ? Mounting::kAsRoot : Mounting::kAsUser;
}

bool probe_detached_layers() {
  return enter_own_mounts() != Mounting::kRefused && overlay_takes_detached_layers();
}

bool probe_overlayfs() {
  const Mounting mounting = enter_own_mounts();
  if (mounting == Mounting::kRefused) return false;
  auto scratch = DetachedMount::new_filesystem("tmpfs", {});
  if (!scratch || !std::move(*scratch).attach(AT_FDCWD, "/tmp")) return false;
  for (const char* path : {"/tmp/lower", "/tmp/upper", "/tmp/work"}) {
    if (mkdir(path, 0700) != 0) return false;
  }
  return DetachedMount::overlay({.lower = {"/tmp/lower"},
                                 .upper = "/tmp/upper",
                                 .work = "/tmp/work",
                                 .user_xattr = mounting == Mounting::kAsUser})
      .has_value();
}

bool probe_nested_user_namespaces() {
  const IdMap uid[] = {{.inside = 0, .outside = geteuid(), .count = 1}};
  const IdMap gid[] = {{.inside = 0, .outside = getegid(), .count = 1}};
  return unshare_namespaces({NamespaceKind::kUser}) && write_id_maps(getpid(), uid, gid) &&
         unshare_namespaces({NamespaceKind::kUser});
}

bool probe_idmapped_tmpfs() {
  auto mount = DetachedMount::new_filesystem("tmpfs", {});
  if (!mount) return false;
  const IdMap ids[] = {{.inside = 0, .outside = 100'000, .count = 1}};
  auto entered = create_pipe();
  if (!entered) return false;
  const pid_t holder = fork();
  if (holder == 0) {
    if (!unshare_namespaces({NamespaceKind::kUser})) _exit(1);
    [[maybe_unused]] const ssize_t told = write(entered->write_end.get(), "", 1);
    for (;;) pause();
  }
  if (holder < 0) return false;
  entered->write_end.reset();
  char byte;
  bool works = read(entered->read_end.get(), &byte, 1) == 1 && write_id_maps(holder, ids, ids);
  if (works) {
    const auto users = NamespaceFd::open_of(holder, NamespaceKind::kUser);
    works = users && mount->set_attributes({.idmap_user_namespace_fd = users->fd()});
  }
  kill(holder, SIGKILL);
  while (waitpid(holder, nullptr, 0) < 0 && errno == EINTR) {
  }
  return works;
}

bool may_make_cgroups(const CgroupHierarchy& hierarchy) {
  for (const std::string& directory : hierarchy.directories())
    if (access(directory.c_str(), W_OK) != 0) return false;
  return true;
}

bool probe_seccomp() {
  const std::uint32_t action = SECCOMP_RET_ERRNO;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

bool probe_kvm() {
  const auto device = open_file("/dev/kvm", O_RDWR);
  return device && ioctl(device->get(), KVM_GET_API_VERSION, 0) == KVM_API_VERSION;
}

}  // namespace

HostFeatures probe_host() {
  HostFeatures features;
  utsname names{};
  if (uname(&names) == 0) {
    features.kernel_release = names.release;
    std::sscanf(names.release, "%d.%d", &features.kernel_major, &features.kernel_minor);
  }
  if (const auto hierarchy = CgroupHierarchy::detect()) {
    features.cgroup_version = hierarchy->version();
    features.cgroup_controllers = hierarchy->controllers();
    features.cgroups_writable = may_make_cgroups(*hierarchy);
    if (const auto throttle = IoThrottle::find(*hierarchy); !throttle)
      features.io_limits_missing = throttle.error().message;
  } else {
    features.io_limits_missing = "there are no control groups";
  }
  features.user_namespaces = succeeds_in_child(probe_user_namespaces);
  features.nested_user_namespaces = succeeds_in_child(probe_nested_user_namespaces);
  features.landlock_abi = landlock_abi();
  features.seccomp = probe_seccomp();
  features.nftables = succeeds_in_child(probe_nftables);
  features.kvm = probe_kvm();
  features.overlayfs = succeeds_in_child(probe_overlayfs);
  features.detached_layers = succeeds_in_child(probe_detached_layers);
  features.idmapped_tmpfs = succeeds_in_child(probe_idmapped_tmpfs);
  features.loop_devices = access("/dev/loop-control", R_OK | W_OK) == 0;
  return features;
}

}  // namespace pons::linux
