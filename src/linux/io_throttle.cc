#include "pons/linux/io_throttle.h"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::linux {
namespace {

constexpr const char* kStep = "limit io";
constexpr std::size_t kTableBytesMax = 1 << 20;
constexpr std::string_view kLoopMajor = "7:";

constexpr std::array<std::pair<const char*, std::uint64_t IoLimits::*>, 4> kFilesV1 = {{
    {"blkio.throttle.read_bps_device", &IoLimits::read_bytes},
    {"blkio.throttle.write_bps_device", &IoLimits::write_bytes},
    {"blkio.throttle.read_iops_device", &IoLimits::read_operations},
    {"blkio.throttle.write_iops_device", &IoLimits::write_operations},
}};

Error unsupported(int os_error, std::string message) {
  return {.code = ErrorCode::kUnsupported,
          .step = kStep,
          .os_error = os_error,
          .message = std::move(message)};
}

// The kernel takes one device per write.
Result<void> write_line(int directory, const char* file, const std::string& line) {
  const UniqueFd fd(openat(directory, file, O_WRONLY | O_CLOEXEC));
  if (!fd || write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return os_error(kStep, fmt::format("{} to {}", line, file));
  return {};
}

bool has(const std::vector<std::string>& texts, std::string_view text) {
  return std::ranges::find(texts, text) != texts.end();
}

std::string or_max(std::uint64_t value) {
  return value == 0 ? "max" : std::to_string(value);
}

// Devices that a file of version 1 has limits for: lines of "7:0 4194304".
std::vector<std::string> devices_in(const std::string& path) {
  std::vector<std::string> devices;
  const auto text = read_file(path, kTableBytesMax);
  if (!text) return devices;
  for (const std::string_view line : split(*text, '\n'))
    if (const auto space = line.find(' '); space != std::string_view::npos)
      devices.emplace_back(line.substr(0, space));
  return devices;
}

Result<void> set_in(const std::string& directory, const std::string& device,
                    const IoLimits& limits) {
  const UniqueFd fd = TRY(open_file(directory, O_RDONLY | O_DIRECTORY));
  for (const auto& [file, field] : kFilesV1) {
    // Asking for no limit, too, makes the kernel count every operation of the device from then on.
    if (limits.*field == 0 && !has(devices_in(fmt::format("{}/{}", directory, file)), device))
      continue;
    TRY_VOID(write_line(fd.get(), file, fmt::format("{} {}", device, limits.*field)));
  }
  return {};
}

}  // namespace

Result<IoThrottle> IoThrottle::find(const CgroupHierarchy& hierarchy) {
  if (hierarchy.version() == 2) {
    if (has(hierarchy.controllers(), "io")) return IoThrottle({});
    return unsupported(EOPNOTSUPP,
                       "the io controller of cgroup v2 is not available to this process");
  }
  std::vector<std::string> directories = hierarchy.block_directories();
  if (directories.empty())
    return unsupported(ENODEV, "the blkio controller of cgroup v1 is not mounted");
  // Only the root group of the host has this file; a container sees a part as if it were the whole.
  if (access((directories.front() + "/cgroup.sane_behavior").c_str(), F_OK) != 0)
    return unsupported(EACCES,
                       "the root group of the blkio controller of cgroup v1 is not visible");
  for (const std::string& directory : directories) {
    for (const auto& [file, field] : kFilesV1) {
      const std::string path = fmt::format("{}/{}", directory, file);
      if (access(path.c_str(), W_OK) == 0) continue;
      return errno == ENOENT ? unsupported(ENODEV,
                                           "the blkio controller of cgroup v1 does not throttle on "
                                           "this kernel")
                             : unsupported(EACCES, fmt::format("{} cannot be written", path));
    }
  }
  return IoThrottle(std::move(directories));
}

Result<void> IoThrottle::set(const Cgroup& group, dev_t device, const IoLimits& limits) const {
  const std::string number = fmt::format("{}:{}", major(device), minor(device));
  if (directories_.empty())
    return write_line(group.directory_fd(), "io.max",
                      fmt::format("{} rbps={} wbps={} riops={} wiops={}", number,
                                  or_max(limits.read_bytes), or_max(limits.write_bytes),
                                  or_max(limits.read_operations), or_max(limits.write_operations)));
  for (const std::string& directory : directories_) TRY_VOID(set_in(directory, number, limits));
  return {};
}

void IoThrottle::clear_free_loop_devices() const {
  for (const std::string& directory : directories_) {
    for (const auto& [file, field] : kFilesV1) {
      for (const std::string& device : devices_in(fmt::format("{}/{}", directory, file))) {
        const std::string backing = fmt::format("/sys/dev/block/{}/loop/backing_file", device);
        if (device.starts_with(kLoopMajor) && access(backing.c_str(), F_OK) != 0)
          (void)set_in(directory, device, {});
      }
    }
  }
}

}  // namespace pons::linux
