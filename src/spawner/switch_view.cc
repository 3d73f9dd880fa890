#include "switch_view.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "pons/base/text.h"
#include "pons/linux/aside.h"

namespace pons::spawner {

namespace {

using linux::UniqueFd;

constexpr std::size_t kMountsBytesMax = 1 << 20;

// What can be mounted in the root directory of a sandbox.
constexpr const char* kMountPoints[] = {"proc", "sys", "dev",   "usr",   "bin",
                                        "sbin", "lib", "lib32", "lib64", "libx32"};

Result<void> set_mount_read_only(int mount, bool on) {
  mount_attr wanted{};
  (on ? wanted.attr_set : wanted.attr_clr) = MOUNT_ATTR_RDONLY;
  if (mount_setattr(mount, "", AT_EMPTY_PATH, &wanted, sizeof wanted) != 0)
    return os_error("seal view");
  return {};
}

Result<void> set_filesystem_read_only(int root, bool on) {
  const UniqueFd context(fspick(root, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC));
  if (!context || fsconfig(context.get(), FSCONFIG_SET_FLAG, on ? "ro" : "rw", nullptr, 0) != 0 ||
      fsconfig(context.get(), FSCONFIG_CMD_RECONFIGURE, nullptr, nullptr, 0) != 0)
    return os_error("seal view");
  return {};
}

Result<void> set_read_only(int root, SealScope scope, bool on) {
  return scope == SealScope::kOneMount ? set_mount_read_only(root, on)
                                       : set_filesystem_read_only(root, on);
}

std::optional<std::uint64_t> mount_id(int fd) {
  struct statx info{};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &info) != 0) return std::nullopt;
  return info.stx_mnt_id;
}

// Names in a sandbox's root are chosen by whoever is in it: links are not followed.
UniqueFd open_entry(int root, const char* name) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
  return UniqueFd(static_cast<int>(syscall(SYS_openat2, root, name, &how, sizeof how)));
}

struct Mounted {
  const char* name;
  UniqueFd fd;
};

// What is mounted in the root. A mount point can be neither removed nor renamed from inside, so
// each still has its name.
std::vector<Mounted> find_mounts(int root) {
  std::vector<Mounted> found;
  const auto own = mount_id(root);
  for (const char* name : kMountPoints) {
    UniqueFd entry = open_entry(root, name);
    if (entry && mount_id(entry.get()) != own) found.push_back({name, std::move(entry)});
  }
  return found;
}

Result<void> move_onto(int mount, int place) {
  if (move_mount(mount, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
    return os_error("move mount");
  return {};
}

Result<void> move_all(const std::vector<Mounted>& mounts, int to) {
  for (const Mounted& mount : mounts) {
    const UniqueFd place = open_entry(to, mount.name);
    if (!place) return os_error("find mount point", mount.name);
    TRY_VOID(move_onto(mount.fd.get(), place.get()));
  }
  return {};
}

// What was moved, or some of it, is where it was, and the new view is gone.
void undo(const std::vector<Mounted>& mounts, int old_root, int new_root) {
  for (const Mounted& mount : mounts)
    if (const UniqueFd place = open_entry(old_root, mount.name); place)
      (void)move_onto(mount.fd.get(), place.get());
  if (fchdir(new_root) == 0) umount2(".", MNT_DETACH);
}

enum class OldRoot : std::uint8_t { kGone, kInAttic };

// Runs in the sandbox's mount namespace. Every path is relative to a descriptor: names there belong
// to the sandbox.
Outcome<OldRoot> switch_inside(linux::DetachedMount view, Seal seal, SealScope scope) {
  const UniqueFd old_root(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!old_root) return failed(Step::kSwitch, os_error("open root"));
  const auto sealed = set_read_only(old_root.get(), scope, true);
  if (!sealed && seal == Seal::kRequired) return failed(Step::kSeal, sealed.error());
  struct Unseal {  // unless the switch succeeds, everything is as it was
    int root;
    SealScope scope;
    bool armed;
    ~Unseal() {
      if (armed) (void)set_read_only(root, scope, false);
    }
  } unseal{old_root.get(), scope, sealed.has_value()};

  const auto mounts = find_mounts(old_root.get());
  const UniqueFd new_root = STEP(Step::kSwitch, linux::duplicate(view.fd()));
  STEP_VOID(Step::kSwitch, std::move(view).attach(old_root.get(), ""));
  auto moved = move_all(mounts, new_root.get());
  // The old root is out of everybody's reach before anyone runs on: from a directory of the new one
  // ".." would lead into it while it lies over "/".
  const UniqueFd attic = open_entry(new_root.get(), "sys/kernel/debug/root");
  if (moved)
    moved =
        attic ? linux::pivot_over(new_root.get(), attic.get()) : linux::pivot_to(new_root.get());
  if (!moved) {
    undo(mounts, old_root.get(), new_root.get());
    return failed(Step::kSwitch, moved.error());
  }
  if (attic && fchdir(old_root.get()) != 0)
    return failed(Step::kSwitch, os_error("enter old root"));
  unseal.armed = false;
  return attic ? OldRoot::kInAttic : OldRoot::kGone;
}

}  // namespace

Outcome<> switch_view(int mount_namespace, linux::DetachedMount view, Seal seal, SealScope scope) {
  Outcome<> outcome;
  const auto ran = linux::run_aside_and_unmount([&]() -> Result<linux::AtEnd> {
    if (setns(mount_namespace, CLONE_NEWNS) != 0) return os_error("enter mount namespace");
    const auto old_root = switch_inside(std::move(view), seal, scope);
    if (!old_root) outcome = std::unexpected(old_root.error());
    return old_root && *old_root == OldRoot::kInAttic ? linux::AtEnd::kUnmount
                                                      : linux::AtEnd::kNothing;
  });
  if (!ran) return failed(Step::kSwitch, ran.error());
  return outcome;
}

Result<std::uint32_t> find_mounted_upper(int mount_namespace) {
  // The sandbox has another /proc, which shows other processes.
  const UniqueFd proc = TRY(linux::open_file("/proc", O_PATH | O_DIRECTORY));
  std::string mounts;
  TRY_VOID(linux::run_aside([&]() -> Result<void> {
    if (setns(mount_namespace, CLONE_NEWNS) != 0) return os_error("enter mount namespace");
    const UniqueFd file(openat(proc.get(), "self/mountinfo", O_RDONLY | O_CLOEXEC));
    if (!file) return os_error("read mounts");
    mounts = TRY(linux::read_all(file.get(), kMountsBytesMax));
    return {};
  }));
  // id parent device root PLACE options … - type SOURCE options
  for (const std::string_view line : split(mounts, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() < 5 || words[4] != "/") continue;
    const auto dash = std::ranges::find(words, std::string_view("-"));
    if (words.end() - dash < 3 || !dash[2].starts_with(kViewSourcePrefix)) continue;
    if (const auto number = parse_decimal(dash[2].substr(kViewSourcePrefix.size())))
      return static_cast<std::uint32_t>(*number);
  }
  return os_error("find view", "which upper is mounted", ENOENT);
}

}  // namespace pons::spawner
