#include "store.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include <fmt/format.h>

#include "disk_image.h"
#include "pons/base/id.h"

namespace pons::spawner {

namespace {

using linux::UniqueFd;

Result<UniqueFd> open_below(int root, const std::string& path) {
  UniqueFd fd(openat(root, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return os_error("open layer", path);
  return fd;
}

std::string size_of(const SandboxLimits& limits) {
  return std::to_string(limits.disk_bytes);
}

}  // namespace

void StorePlaceTraits::close(const std::string& path) noexcept {
  linux::MountTraits::close(path);
  rmdir(path.c_str());
}

Result<Store> Store::create_in_memory(const SandboxLimits& limits) {
  const std::pair<std::string, std::string> options[] = {
      {"mode", "0711"},
      {"size", size_of(limits)},
      {"nr_inodes", std::to_string(limits.disk_inodes)}};
  auto mount = TRY(linux::DetachedMount::new_filesystem("tmpfs", options));
  TRY_VOID(mount.set_attributes({.no_dev = true}));
  return Store(TRY(linux::duplicate(mount.fd())));
}

Result<void> Store::attach(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return os_error("show store", path);
  if (move_mount(root_.get(), "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
    return os_error("show store", path);
  place_ = UniqueHandle<StorePlaceTraits>(path);
  return {};
}

Result<Store> Store::create_on_disk(const SandboxLimits& limits) {
  const auto mount = TRY(mount_disk_image(limits));
  return Store(TRY(linux::duplicate(mount.fd())));
}

Result<void> Store::add_layer(std::uint32_t number, std::uint32_t owner) const {
  const std::string name = std::to_string(number);
  if (mkdirat(root_.get(), name.c_str(), 0711) != 0) {
    if (errno != EEXIST) return os_error("make layer", name);
    (void)TRY(discard_layer(number));
    if (mkdirat(root_.get(), name.c_str(), 0711) != 0) return os_error("make layer", name);
  }
  const UniqueFd layer = TRY(open_below(root_.get(), name));
  if (mkdirat(layer.get(), "files", 0755) != 0 || mkdirat(layer.get(), "work", 0700) != 0 ||
      fchownat(layer.get(), "files", owner, owner, AT_SYMLINK_NOFOLLOW) != 0)
    return os_error("make layer", name);
  return {};
}

Result<UniqueFd> Store::open_layer(std::uint32_t number) const {
  return open_below(root_.get(), fmt::format("{}/files", number));
}

Result<UniqueFd> Store::open_work(std::uint32_t number) const {
  return open_below(root_.get(), fmt::format("{}/work", number));
}

Result<std::string> Store::discard_layer(std::uint32_t number) const {
  std::uint64_t random = 0;
  random_bytes(&random, sizeof random);
  std::string aside = fmt::format("discarded-{:016x}", random);
  if (renameat(root_.get(), std::to_string(number).c_str(), root_.get(), aside.c_str()) != 0)
    return os_error("discard layer", std::to_string(number));
  return aside;
}

void Store::abandon() const {
  if (is_disk_image(root_.get())) abandon_disk_image(root_.get());
}

Result<void> Store::resize(const SandboxLimits& limits) const {
  if (is_disk_image(root_.get())) return grow_disk_image(root_.get(), limits);
  const UniqueFd context(fspick(root_.get(), "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH));
  if (!context) return os_error("resize store");
  const std::string inodes = std::to_string(limits.disk_inodes);
  if (fsconfig(context.get(), FSCONFIG_SET_STRING, "size", size_of(limits).c_str(), 0) != 0 ||
      fsconfig(context.get(), FSCONFIG_SET_STRING, "nr_inodes", inodes.c_str(), 0) != 0 ||
      fsconfig(context.get(), FSCONFIG_CMD_RECONFIGURE, nullptr, nullptr, 0) != 0)
    return os_error("resize store");
  return {};
}

}  // namespace pons::spawner
