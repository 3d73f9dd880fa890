#include "minimal_mounts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/linux/fd.h"
#include "pons/linux/mount.h"
#include "pons/linux/namespace.h"

namespace pons::roles {

namespace {

using linux::DetachedMount;
using linux::MountScope;

enum class Writing : std::uint8_t { kAllowed, kRefused };

Result<void> create_directories(int root, std::string_view absolute_path) {
  std::string prefix;
  for (const std::string_view part : split(absolute_path.substr(1), '/')) {
    prefix += fmt::format("{}{}", prefix.empty() ? "" : "/", part);
    if (mkdirat(root, prefix.c_str(), 0755) != 0 && errno != EEXIST)
      return os_error("build mount tree", prefix);
  }
  return {};
}

// The same path inside the new root: a link stays a link, anything else is the host's own, mounted
// there.
Result<void> show(int root, const std::string& path, Writing writing) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return {};  // this host has no such path
  if (S_ISLNK(info.st_mode)) {
    char target[4096];
    const ssize_t size = readlink(path.c_str(), target, sizeof target - 1);
    if (size < 0) return os_error("read link", path);
    target[size] = '\0';
    if (symlinkat(target, root, path.c_str() + 1) != 0) return os_error("build mount tree", path);
    return {};
  }
  auto mount = TRY(DetachedMount::clone_tree(path, MountScope::kWholeTree));
  if (writing == Writing::kRefused)
    TRY_VOID(mount.set_attributes(
        {.read_only = true, .no_suid = true, .scope = MountScope::kWholeTree}));
  struct stat there{};
  if (fstatat(root, path.c_str() + 1, &there, AT_SYMLINK_NOFOLLOW) == 0) {
    // Part of something that is shown already.
  } else if (S_ISDIR(info.st_mode)) {
    TRY_VOID(create_directories(root, path));
  } else {
    TRY_VOID(create_directories(root, path.substr(0, path.rfind('/'))));
    const linux::UniqueFd place(
        openat(root, path.c_str() + 1, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    if (!place) return os_error("build mount tree", path);
  }
  return std::move(mount).attach(root, path.substr(1));
}

// A /proc with only the processes that this one may trace: itself and what it starts. The host's
// would give it every process's environment, because Linux lets CAP_SYS_ADMIN read that without
// asking about tracing.
Result<void> show_own_processes(int root) {
  const std::pair<std::string, std::string> options[] = {{"hidepid", "ptraceable"}};
  auto processes = TRY(DetachedMount::new_filesystem("proc", options));
  TRY_VOID(create_directories(root, "/proc"));
  TRY_VOID(std::move(processes).attach(root, "proc"));
  // The kernel's settings are for reading.
  const linux::UniqueFd settings(openat(root, "proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!settings) return os_error("build mount tree", "/proc/sys");
  auto sealed = TRY(DetachedMount::clone_tree(settings.get(), MountScope::kOneMount));
  TRY_VOID(sealed.set_attributes({.read_only = true}));
  return std::move(sealed).attach(root, "proc/sys");
}

}  // namespace

Result<void> enter_minimal_mounts(const Profile& profile, const std::string& state_dir,
                                  Processes processes) {
  const std::string own_state = fmt::format("{}/{}", state_dir, profile.name);
  TRY_VOID(linux::unshare_namespaces({linux::NamespaceKind::kMount}));
  TRY_VOID(linux::make_mounts_private());
  auto own = TRY(DetachedMount::clone_tree(own_state, MountScope::kOneMount));

  // A mount can only be put onto one that is attached, so the new root is built on top of a folder
  // that is seen no more once it is the root.
  const std::pair<std::string, std::string> options[] = {{"mode", "0755"}, {"size", "1m"}};
  auto stage = TRY(DetachedMount::new_filesystem("tmpfs", options));
  const auto root = TRY(linux::duplicate(stage.fd()));
  TRY_VOID(std::move(stage).attach(AT_FDCWD, own_state));
  for (const std::string_view path : profile.read_only)
    TRY_VOID(show(root.get(), std::string(path), Writing::kRefused));
  TRY_VOID(show(root.get(), "/sys", Writing::kRefused));
  TRY_VOID(show(root.get(), "/sys/fs/cgroup", Writing::kAllowed));
  for (const char* device :
       {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"})
    TRY_VOID(show(root.get(), device, Writing::kAllowed));
  if (processes == Processes::kOwn) {
    TRY_VOID(show_own_processes(root.get()));
  } else {
    TRY_VOID(show(root.get(), "/proc", Writing::kAllowed));
  }
  TRY_VOID(create_directories(root.get(), own_state));
  TRY_VOID(std::move(own).attach(root.get(), own_state.substr(1)));

  // Nothing is ever written into the root itself.
  auto sealed = TRY(DetachedMount::clone_tree(own_state, MountScope::kWholeTree));
  TRY_VOID(sealed.set_attributes({.read_only = true, .scope = MountScope::kOneMount}));
  const auto new_root = TRY(linux::duplicate(sealed.fd()));
  TRY_VOID(std::move(sealed).attach(AT_FDCWD, own_state));
  TRY_VOID(linux::pivot_to(new_root.get()));
  if (chdir(own_state.c_str()) != 0) return os_error("enter state directory", own_state);
  return {};
}

}  // namespace pons::roles
