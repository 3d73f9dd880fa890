#include "pons/linux/namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <system_error>
#include <thread>

#include <fmt/format.h>

namespace pons::linux {
namespace {

constexpr std::size_t kIdMapLinesMax = 340;  // of the kernel

struct KindFacts {
  int flag;
  const char* name;  // in /proc/<pid>/ns
};

KindFacts facts_of(NamespaceKind kind) {
  switch (kind) {
    case NamespaceKind::kUser:
      return {CLONE_NEWUSER, "user"};
    case NamespaceKind::kMount:
      return {CLONE_NEWNS, "mnt"};
    case NamespaceKind::kPid:
      return {CLONE_NEWPID, "pid"};
    case NamespaceKind::kNet:
      return {CLONE_NEWNET, "net"};
    case NamespaceKind::kIpc:
      return {CLONE_NEWIPC, "ipc"};
    case NamespaceKind::kUts:
      return {CLONE_NEWUTS, "uts"};
    case NamespaceKind::kCgroup:
      return {CLONE_NEWCGROUP, "cgroup"};
  }
  return {0, ""};
}

// The kernel takes a map in one write or not at all.
Result<void> write_map(const std::string& path, std::span<const IdMap> maps) {
  std::string text;
  for (const IdMap& map : maps)
    text += fmt::format("{} {} {}\n", map.inside, map.outside, map.count);
  const UniqueFd file = TRY(open_file(path, O_WRONLY));
  if (auto written = write_all(file.get(), text); !written)
    return os_error("map user ids", path, written.error().os_error);
  return {};
}

Result<void> deny_setgroups(pid_t pid) {
  const UniqueFd file = TRY(open_file(fmt::format("/proc/{}/setgroups", pid), O_WRONLY));
  return write_all(file.get(), "deny");
}

// A namespace of the calling thread is changed in a thread that ends afterwards, so nothing has to
// be restored and no failure can leave the caller in a foreign place.
template <class Work>
Result<void> run_in_thread(Work work) {
  Result<void> outcome;
  try {
    std::thread([&] { outcome = work(); }).join();
  } catch (const std::system_error& error) {
    return os_error("start thread", {}, error.code().value());
  }
  return outcome;
}

Result<UniqueFd> leave_for_new_net_namespace() {
  TRY_VOID(unshare_namespaces({NamespaceKind::kNet}));
  return open_file("/proc/thread-self/ns/net", O_RDONLY);
}

}  // namespace

Result<NamespaceFd> NamespaceFd::open_current(NamespaceKind kind) {
  return NamespaceFd(
      TRY(open_file(fmt::format("/proc/thread-self/ns/{}", facts_of(kind).name), O_RDONLY)), kind);
}

Result<NamespaceFd> NamespaceFd::open_of(pid_t pid, NamespaceKind kind) {
  return NamespaceFd(
      TRY(open_file(fmt::format("/proc/{}/ns/{}", pid, facts_of(kind).name), O_RDONLY)), kind);
}

Result<void> NamespaceFd::enter() const {
  if (setns(fd_.get(), facts_of(kind_).flag) != 0)
    return os_error("enter namespace", facts_of(kind_).name);
  return {};
}

std::uint64_t NamespaceFd::id() const {
  struct stat status{};
  return fstat(fd_.get(), &status) == 0 ? status.st_ino : 0;
}

Result<void> unshare_namespaces(std::initializer_list<NamespaceKind> kinds) {
  int flags = 0;
  std::string names;
  for (const NamespaceKind kind : kinds) {
    flags |= facts_of(kind).flag;
    names += names.empty() ? facts_of(kind).name : std::string(", ") + facts_of(kind).name;
  }
  if (unshare(flags) != 0) return os_error("create namespaces", names);
  return {};
}

Result<void> write_id_maps(pid_t pid, std::span<const IdMap> uid, std::span<const IdMap> gid) {
  if (uid.empty() || gid.empty() || uid.size() > kIdMapLinesMax || gid.size() > kIdMapLinesMax)
    return make_error(ErrorCode::kInvalid, "map user ids",
                      fmt::format("between 1 and {} lines are needed", kIdMapLinesMax));
  const std::string gid_path = fmt::format("/proc/{}/gid_map", pid);
  auto groups = write_map(gid_path, gid);
  if (!groups && groups.error().os_error == EPERM) {
    TRY_VOID(deny_setgroups(pid));
    groups = write_map(gid_path, gid);
  }
  TRY_VOID(std::move(groups));
  return write_map(fmt::format("/proc/{}/uid_map", pid), uid);
}

Result<UniqueFd> create_net_namespace() {
  Result<UniqueFd> created;
  TRY_VOID(run_in_thread([&]() -> Result<void> {
    created = leave_for_new_net_namespace();
    return {};
  }));
  return created;
}

Result<void> run_in_net_namespace(int namespace_fd, const std::function<Result<void>()>& work) {
  return run_in_thread([&]() -> Result<void> {
    if (setns(namespace_fd, CLONE_NEWNET) != 0) return os_error("enter network namespace");
    return work();
  });
}

}  // namespace pons::linux
