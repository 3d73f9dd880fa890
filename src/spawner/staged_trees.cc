#include "staged_trees.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "pons/linux/aside.h"
#include "pons/linux/namespace.h"
#include "pons/spawner/left_out.h"

namespace pons::spawner {

namespace {

using linux::DetachedMount;
using linux::MountScope;
using linux::UniqueFd;

constexpr const char* kDevices[] = {"null", "zero", "full", "random", "urandom", "tty"};
constexpr std::pair<const char*, const char*> kDeviceLinks[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};
constexpr const char* kSysDirectories[] = {
    "sys",       "sys/devices", "sys/devices/system",      "sys/devices/system/cpu", "sys/fs",
    "sys/class", "sys/kernel",  "sys/devices/system/node", "sys/fs/cgroup",
};
constexpr const char* kHostNames[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};

Result<void> make_directory(int root, const char* path) {
  if (mkdirat(root, path, 0755) != 0 && errno != EEXIST) return os_error("stage tree", path);
  return {};
}

Result<void> make_file(int root, const std::string& path) {
  const UniqueFd file(openat(root, path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0444));
  if (!file) return os_error("stage tree", path);
  return {};
}

// Below the host's own programs: what most machines call python, where this one has no such name.
Result<void> make_program_names(int root) {
  TRY_VOID(make_directory(root, "names"));
  TRY_VOID(make_directory(root, "names/bin"));
  if (access("/usr/bin/python3", X_OK) != 0) return {};
  if (symlinkat("python3", root, "names/bin/python") != 0) return os_error("stage tree", "python");
  return {};
}

bool is_directory(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Result<void> StagedTrees::build_dev(int root) const {
  TRY_VOID(make_directory(root, "dev"));
  TRY_VOID(make_directory(root, "dev/pts"));
  TRY_VOID(make_directory(root, "dev/shm"));
  for (const auto& [name, target] : kDeviceLinks)
    if (symlinkat(target, root, fmt::format("dev/{}", name).c_str()) != 0)
      return os_error("stage tree", name);
  if (is_protection_left_out("device_list")) TRY_VOID(make_file(root, "dev/another"));
  for (const char* device : kDevices) {
    auto mount = DetachedMount::clone_tree(fmt::format("/dev/{}", device), MountScope::kOneMount);
    if (!mount && mount.error().code == ErrorCode::kNotFound) continue;
    if (!mount) return mount.error();
    TRY_VOID(mount->set_attributes({.no_suid = true, .no_exec = true}));
    const std::string place = fmt::format("dev/{}", device);
    TRY_VOID(make_file(root, place));
    TRY_VOID(std::move(*mount).attach(root, place));
  }
  return {};
}

// Where switch_view puts an old root until it is gone. Nobody in a sandbox can go there: as on
// every host, this directory is the host's root's alone.
Result<void> StagedTrees::build_attic(int root) const {
  if (mkdirat(root, "sys/kernel/debug", 0700) != 0) return os_error("stage tree", "attic");
  return make_directory(root, "sys/kernel/debug/root");
}

Result<void> StagedTrees::build_sys(int root) const {
  for (const char* path : kSysDirectories) TRY_VOID(make_directory(root, path));
  for (const char* path : {"sys/devices/system/cpu", "sys/devices/system/node"}) {
    const std::string source = fmt::format("/{}", path);
    if (!is_directory(source)) continue;
    auto mount = TRY(DetachedMount::clone_tree(source, MountScope::kOneMount));
    TRY_VOID(mount.set_attributes(
        {.read_only = true, .no_suid = true, .no_exec = true, .no_dev = true}));
    TRY_VOID(std::move(mount).attach(root, path));
  }
  return {};
}

Result<void> StagedTrees::build_host(int root, Privileges privileges) {
  TRY_VOID(make_directory(root, "nothing"));
  TRY_VOID(make_program_names(root));
  for (const char* name : kHostNames) {
    const std::string source = fmt::format("/{}", name);
    if (!is_directory(source)) continue;
    const char* const below = std::string_view(name) == "usr" ? "names" : "nothing";
    auto tree =
        TRY(DetachedMount::overlay({.lower = {source, fmt::format("{}/{}", directory_, below)},
                                    .upper = {},
                                    .work = {},
                                    .user_xattr = privileges == Privileges::kOwnNamespace}));
    TRY_VOID(tree.set_attributes({.read_only = true, .no_suid = true, .no_dev = true}));
    TRY_VOID(make_directory(root, name));
    TRY_VOID(std::move(tree).attach(root, name));
    host_names_.emplace_back(name);
  }
  return {};
}

Result<StagedTrees> StagedTrees::build(const std::string& directory, Privileges privileges) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return os_error("stage tree", directory);
  StagedTrees trees(directory);
  const std::pair<std::string, std::string> options[] = {{"mode", "0755"}, {"size", "1m"}};
  auto stage = TRY(DetachedMount::new_filesystem("tmpfs", options));
  const UniqueFd root = TRY(linux::duplicate(stage.fd()));
  TRY_VOID(std::move(stage).attach(AT_FDCWD, directory));
  TRY_VOID(trees.build_dev(root.get()));
  TRY_VOID(trees.build_sys(root.get()));
  if (privileges == Privileges::kHostRoot) TRY_VOID(trees.build_attic(root.get()));
  TRY_VOID(make_file(root.get(), "blank"));
  TRY_VOID(trees.build_host(root.get(), privileges));
  mount_attr sealed{};
  sealed.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOATIME;
  if (!is_protection_left_out("sealed_trees")) sealed.attr_set |= MOUNT_ATTR_RDONLY;
  sealed.attr_clr = MOUNT_ATTR__ATIME;
  if (mount_setattr(root.get(), "", AT_EMPTY_PATH, &sealed, sizeof sealed) != 0)
    return os_error("seal staged trees");
  trees.blank_file_ = TRY(linux::open_file(directory + "/blank", O_PATH));
  trees.blank_directory_ = TRY(linux::open_file(directory + "/nothing", O_PATH | O_DIRECTORY));
  if (privileges == Privileges::kHostRoot) TRY_VOID(trees.build_bare_namespace());
  return trees;
}

Result<void> StagedTrees::build_bare_namespace() {
  return linux::run_aside([&]() -> Result<void> {
    TRY_VOID(linux::unshare_namespaces({linux::NamespaceKind::kMount}));
    bare_namespace_ = TRY(linux::open_file("/proc/self/ns/mnt", O_RDONLY));
    const std::pair<std::string, std::string> options[] = {{"mode", "0755"}, {"size", "4k"}};
    auto bare = TRY(DetachedMount::new_filesystem("tmpfs", options));
    TRY_VOID(make_directory(bare.fd(), "root"));
    TRY_VOID(bare.set_attributes({.read_only = true, .no_suid = true, .no_dev = true}));
    const UniqueFd root = TRY(linux::duplicate(bare.fd()));
    TRY_VOID(std::move(bare).attach(AT_FDCWD, directory_));
    return linux::pivot_to(root.get());
  });
}

Result<DetachedMount> StagedTrees::dev() const {
  return DetachedMount::clone_tree(directory_ + "/dev", MountScope::kWholeTree);
}

Result<DetachedMount> StagedTrees::sys() const {
  return DetachedMount::clone_tree(directory_ + "/sys", MountScope::kWholeTree);
}

Result<DetachedMount> StagedTrees::host(const std::string& name) const {
  return DetachedMount::clone_tree(fmt::format("{}/{}", directory_, name), MountScope::kOneMount);
}

Result<DetachedMount> StagedTrees::blank_file() const {
  return DetachedMount::clone_tree(blank_file_.get(), MountScope::kOneMount);
}

Result<DetachedMount> StagedTrees::blank_directory() const {
  return DetachedMount::clone_tree(blank_directory_.get(), MountScope::kOneMount);
}

}  // namespace pons::spawner
