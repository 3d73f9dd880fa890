#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "pons/base/result.h"
#include "pons/linux/mount.h"
#include "pons/spawner/protocol.h"

// The disk of one sandbox: an ext4 of its size in a sparse file without a name, behind a loop
// device. File and device are freed by the kernel with the last mount, whoever is killed when.

namespace pons::spawner {

// Below the working directory: empty file systems of sizes that were asked for, ready to be copied.
inline constexpr char kImageDirectory[] = "images";
inline constexpr char kImageSuffix[] = ".ext4";  // of every file there that is whole

// EOPNOTSUPP: no mkfs.ext4 here. ENOSPC: the host's disk has not that much left. EINVAL: a size or
// a number of inodes that it cannot have.
Result<linux::DetachedMount> mount_disk_image(const SandboxLimits& limits);

// Making the first disk of its size takes a moment, because an empty file system is made then:
// nothing when there is one, or when there cannot be.
std::optional<std::string> find_missing_image(const SandboxLimits& limits);
Result<void> make_empty_image(const SandboxLimits& limits);

bool is_disk_image(int root_fd);
dev_t disk_device(int root_fd);

struct DiskTraffic {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t read_operations = 0;
  std::uint64_t write_operations = 0;
};
// What the device had been asked for before this disk came, and since then; nothing where the host
// does not count it. The second never waits for the disk.
std::optional<DiskTraffic> find_traffic_before(int root_fd);
std::optional<DiskTraffic> find_traffic_since(int root_fd, const DiskTraffic& before);

// Takes CAP_SYS_RESOURCE. EINVAL for a smaller size.
Result<void> grow_disk_image(int root_fd, const SandboxLimits& limits);
// Refuses every access from now on, and forgets what waits to be written.
void abandon_disk_image(int root_fd);

}  // namespace pons::spawner
