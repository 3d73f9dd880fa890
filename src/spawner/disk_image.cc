#include "disk_image.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "pons/linux/loop_image.h"

namespace pons::spawner {

namespace {

using linux::DetachedMount;
using linux::UniqueFd;

// The kernel's, of <linux/ext4.h>, which the headers of Debian 12 do not have yet.
constexpr unsigned long kResizeFilesystem = _IOW('f', 16, std::uint64_t);
constexpr unsigned long kShutDown = _IOR('X', 125, std::uint32_t);
constexpr std::uint32_t kWithoutFlush = 2;

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::size_t kImagesMax = 8;

linux::Ext4Size size_of(const SandboxLimits& limits) {
  return {.bytes = limits.disk_bytes / kBlockBytes * kBlockBytes, .inodes = limits.disk_inodes};
}

bool is_possible(const linux::Ext4Size& size) {
  return size.bytes >= kDiskImageBytesMin && size.bytes <= kDiskImageBytesMax &&
         size.inodes <= size.bytes / kBlockBytes;
}

std::string image_path(const linux::Ext4Size& size) {
  return fmt::format("{}/{}-{}{}", kImageDirectory, size.bytes, size.inodes, kImageSuffix);
}

// Of more than enough, the one that was used last the longest ago.
void make_room_for_an_image() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> images;
  for (const auto& image : fs::directory_iterator(kImageDirectory, ignored))
    if (image.path().extension() == kImageSuffix)
      images.emplace_back(image.last_write_time(ignored), image.path());
  if (images.size() >= kImagesMax) fs::remove(std::ranges::min(images).second, ignored);
}

// An empty file system of this size: made when a size is asked for first, copied afterwards.
Result<std::string> find_empty_image(const SandboxLimits& limits) {
  std::string path = image_path(size_of(limits));
  if (access(path.c_str(), R_OK) != 0) TRY_VOID(make_empty_image(limits));
  (void)utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return path;
}

Result<UniqueFd> open_root(int root_fd) {
  UniqueFd root(openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return os_error("open disk");
  return root;
}

// A device keeps counting through the lives of all disks that were behind it. What it had counted
// when this one came is kept with the disk, so that the next process of the spawner finds it too.
constexpr const char* kTrafficBefore = "trusted.pons.traffic";
constexpr std::uint64_t kSectorBytes = 512;

std::optional<DiskTraffic> read_traffic(dev_t device) {
  const auto text =
      linux::read_file(fmt::format("/sys/dev/block/{}:{}/stat", major(device), minor(device)));
  if (!text) return std::nullopt;
  unsigned long long reads, read_sectors, writes, write_sectors;
  if (std::sscanf(text->c_str(), "%llu %*u %llu %*u %llu %*u %llu", &reads, &read_sectors, &writes,
                  &write_sectors) != 4)
    return std::nullopt;
  return DiskTraffic{.read_bytes = read_sectors * kSectorBytes,
                     .write_bytes = write_sectors * kSectorBytes,
                     .read_operations = reads,
                     .write_operations = writes};
}

void note_traffic_before(int root_fd) {
  if (const auto before = read_traffic(disk_device(root_fd)))
    (void)fsetxattr(root_fd, kTrafficBefore, &*before, sizeof *before, 0);
}

}  // namespace

std::optional<std::string> find_missing_image(const SandboxLimits& limits) {
  const linux::Ext4Size size = size_of(limits);
  if (!is_possible(size) || !linux::can_create_ext4_images()) return std::nullopt;
  std::string path = image_path(size);
  return access(path.c_str(), R_OK) == 0 ? std::nullopt : std::optional(std::move(path));
}

Result<void> make_empty_image(const SandboxLimits& limits) {
  if (!linux::can_create_ext4_images()) return os_error("format image", "mkfs.ext4", EOPNOTSUPP);
  make_room_for_an_image();
  return linux::create_ext4_image(image_path(size_of(limits)), size_of(limits));
}

Result<DetachedMount> mount_disk_image(const SandboxLimits& limits) {
  const linux::Ext4Size size = size_of(limits);
  if (!is_possible(size)) return os_error("size disk", {}, EINVAL);
  struct statvfs host{};
  if (statvfs(kImageDirectory, &host) != 0) return os_error("look at the host's disk");
  if (size.bytes / host.f_frsize > host.f_bavail) return os_error("size disk", {}, ENOSPC);
  const std::string empty = TRY(find_empty_image(limits));
  const UniqueFd image = TRY(linux::copy_image_unnamed(empty, kImageDirectory));
  // The file system's size is the limit. Its device has all the room it may ever grow into, unless
  // the host cannot have such files.
  (void)ftruncate(image.get(), static_cast<off_t>(kDiskImageBytesMax));

  // The kernel's own directory of devices, in sight only while this one is found.
  const auto devices = TRY(DetachedMount::new_filesystem("devtmpfs", {}));
  const auto loop = TRY(linux::LoopImage::attach(image.get(), devices.fd()));
  // What is written lives no longer than the host runs: nothing has to reach the disk in order.
  // Holes read as the zeros that tables of inodes begin with. With minixdf its size is told with
  // what it keeps for itself, as the limit was.
  const std::pair<std::string, std::string> options[] = {
      {"source", fmt::format("/proc/self/fd/{}", loop.fd())},
      {"nobarrier", ""},
      {"noinit_itable", ""},
      {"minixdf", ""},
      {"discard", ""}};
  auto mount = TRY(DetachedMount::new_filesystem("ext4", options));
  TRY_VOID(mount.set_attributes({.no_dev = true}));
  const UniqueFd root = TRY(open_root(mount.fd()));
  if (fchmod(root.get(), 0711) != 0) return os_error("open disk");
  note_traffic_before(root.get());
  return mount;
}

bool is_disk_image(int root_fd) {
  struct statfs info{};
  return fstatfs(root_fd, &info) == 0 && info.f_type == EXT4_SUPER_MAGIC;
}

dev_t disk_device(int root_fd) {
  struct stat info{};
  return fstat(root_fd, &info) == 0 ? info.st_dev : 0;
}

std::optional<DiskTraffic> find_traffic_before(int root_fd) {
  if (!is_disk_image(root_fd)) return std::nullopt;
  const auto root = open_root(root_fd);
  DiskTraffic before;
  if (!root || fgetxattr(root->get(), kTrafficBefore, &before, sizeof before) != sizeof before)
    return std::nullopt;
  return before;
}

std::optional<DiskTraffic> find_traffic_since(int root_fd, const DiskTraffic& before) {
  auto traffic = read_traffic(disk_device(root_fd));
  if (!traffic) return std::nullopt;
  traffic->read_bytes -= before.read_bytes;
  traffic->write_bytes -= before.write_bytes;
  traffic->read_operations -= before.read_operations;
  traffic->write_operations -= before.write_operations;
  return traffic;
}

Result<void> grow_disk_image(int root_fd, const SandboxLimits& limits) {
  if (limits.disk_bytes > kDiskImageBytesMax) return os_error("grow disk", {}, EINVAL);
  const UniqueFd root = TRY(open_root(root_fd));
  struct statfs info{};
  if (fstatfs(root.get(), &info) != 0) return os_error("grow disk");
  const std::uint64_t blocks = limits.disk_bytes / kBlockBytes;
  if (blocks == info.f_blocks) return {};
  if (blocks < info.f_blocks) return os_error("grow disk", {}, EINVAL);
  if (ioctl(root.get(), kResizeFilesystem, &blocks) != 0) return os_error("grow disk");
  return {};
}

void abandon_disk_image(int root_fd) {
  const auto root = open_root(root_fd);
  if (root) (void)ioctl(root->get(), kShutDown, &kWithoutFlush);
}

}  // namespace pons::spawner
