#include "limit_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "pons/base/text.h"
#include "pons/cell/protocol.h"

namespace pons::sandbox {

namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kProcessesBytes = 32 * kMiB;
constexpr std::uint64_t kShmBytesMax = 64 * kMiB;
constexpr std::uint64_t kDiskBytesMin = 16 * kMiB;
constexpr std::uint64_t kBytesPerInode = 4096;
constexpr std::uint64_t kBytesOfInode = 1280;  // in memory: the kernel's notes about one file
constexpr std::uint64_t kBytesPerInodeOnDisk = 16'384;  // each takes room beforehand
constexpr std::uint64_t kMemoryBytesMax = 1ULL << 44;
constexpr std::uint64_t kDiskBytesMax = 1ULL << 46;
// Slower, a disk would only seem to hang, and whoever else writes to the host's disks might wait.
constexpr std::uint64_t kIoBytesMin = kMiB;
constexpr std::uint64_t kIoBytesMax = 1ULL << 40;
constexpr std::uint32_t kIoOperationsMin = 16;
constexpr std::uint32_t kIoOperationsMax = 1'000'000'000;
constexpr std::size_t kTextMapEntriesMax = 256;
constexpr std::size_t kTextMapBytesMax = 64 * 1024;

Error invalid(std::string message) {
  return make_error(ErrorCode::kInvalid, "check limits", std::move(message));
}

template <class T>
Result<void> check_range(const char* name, T value, T least, T most) {
  if (value >= least && value <= most) return {};
  return invalid(fmt::format("{} is {} and must be from {} to {}", name, value, least, most));
}

bool is_name(std::string_view text, std::string_view more) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || more.contains(c);
  });
}

Result<void> check_texts(const char* what, const std::map<std::string, std::string>& texts) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : texts) bytes += name.size() + value.size();
  if (texts.size() <= kTextMapEntriesMax && bytes <= kTextMapBytesMax) return {};
  return make_error(ErrorCode::kLimit, "check request",
                    fmt::format("{}: at most {} entries and {} bytes together", what,
                                kTextMapEntriesMax, kTextMapBytesMax));
}

Result<void> check_io(const Limits& limits) {
  Limits without = limits;
  clear_io_limits(without);
  if (limits != without && !limits.disk_upper)
    return invalid("limits on io are for a writable layer on disk: set disk_upper and disk_bytes");
  const auto check = [](const char* name, auto value, auto least, auto most) -> Result<void> {
    return value == 0 ? Result<void>() : check_range(name, value, least, most);
  };
  TRY_VOID(
      check("io_read_bytes_per_second", limits.io_read_bytes_per_second, kIoBytesMin, kIoBytesMax));
  TRY_VOID(check("io_write_bytes_per_second", limits.io_write_bytes_per_second, kIoBytesMin,
                 kIoBytesMax));
  TRY_VOID(check("io_read_operations_per_second", limits.io_read_operations_per_second,
                 kIoOperationsMin, kIoOperationsMax));
  return check("io_write_operations_per_second", limits.io_write_operations_per_second,
               kIoOperationsMin, kIoOperationsMax);
}

const char* missing_for_io(int os_error) {
  switch (os_error) {
    case EOPNOTSUPP:
      return "the io controller of cgroup v2 is not available to Pons";
    case ENODEV:
      return "the blkio controller of cgroup v1 is not mounted, or cannot throttle";
    case EACCES:
      return "the root group of the blkio controller of cgroup v1 is out of reach, as in a "
             "container";
    default:
      return nullptr;
  }
}

bool fits_into_memory(std::uint64_t disk_bytes, std::uint64_t disk_inodes,
                      std::uint64_t memory_bytes) {
  const std::uint64_t room = memory_disk_room(memory_bytes);
  // The smallest takes a part of what is left to processes.
  if (disk_bytes <= kDiskBytesMin && disk_inodes <= kDiskBytesMin / kBytesPerInode) return true;
  return disk_bytes <= room && disk_inodes <= (room - disk_bytes) / kBytesOfInode;
}

// Fills in what is 0.
Result<void> resolve_memory_disk(std::uint64_t memory_bytes, std::uint64_t& disk,
                                 std::uint64_t& inodes) {
  const std::uint64_t room = memory_disk_room(memory_bytes);
  if (disk == 0 && inodes == 0) {
    disk = room * kBytesPerInode / (kBytesPerInode + kBytesOfInode);
  } else if (disk == 0) {
    const std::uint64_t kept = inodes > room / kBytesOfInode ? room : inodes * kBytesOfInode;
    disk = std::max(room - kept, kDiskBytesMin);
  } else if (inodes == 0) {
    const std::uint64_t left = disk < room ? (room - disk) / kBytesOfInode : 0;
    inodes = std::clamp(left, disk / kBytesPerInodeOnDisk, disk / kBytesPerInode);
  }
  if (inodes == 0) inodes = disk / kBytesPerInode;
  if (fits_into_memory(disk, inodes, memory_bytes)) return {};
  return invalid(fmt::format(
      "disk_bytes {} and disk_inodes {} are too much for a writable layer in memory: with "
      "memory_bytes {} it may have {} bytes together, and each inode takes {} of them; set "
      "disk_upper for more, or raise memory_bytes",
      disk, inodes, memory_bytes, room, kBytesOfInode));
}

}  // namespace

std::uint64_t memory_disk_room(std::uint64_t memory_bytes) {
  const std::uint64_t kept = kProcessesBytes + std::min(kShmBytesMax, memory_bytes / 4);
  return memory_bytes > kept ? memory_bytes - kept : 0;
}

Result<spawner::SandboxLimits> resolve_limits(const Limits& limits) {
  TRY_VOID(check_range("memory_bytes", limits.memory_bytes, 64 * kMiB, kMemoryBytesMax));
  TRY_VOID(check_range<std::uint64_t>("swap_bytes", limits.swap_bytes, 0, kMemoryBytesMax));
  TRY_VOID(check_range("cpu_percent", limits.cpu_percent, 1U, 100'000U));
  TRY_VOID(check_range("pids", limits.pids, 8U, 1'000'000U));
  for (const Milliseconds time : {limits.idle_max, limits.lifetime_max, limits.freeze_after})
    if (time.count() < 0) return invalid("times must not be negative");
  TRY_VOID(check_io(limits));
  std::uint64_t disk = limits.disk_bytes;
  std::uint64_t inodes = limits.disk_inodes;
  if (limits.disk_upper) {
    if (disk == 0)
      return invalid("disk_upper needs disk_bytes: a writable layer without a limit is refused");
    TRY_VOID(
        check_range("disk_bytes", disk, spawner::kDiskImageBytesMin, spawner::kDiskImageBytesMax));
  } else {
    TRY_VOID(resolve_memory_disk(limits.memory_bytes, disk, inodes));
    TRY_VOID(check_range("disk_bytes", disk, kDiskBytesMin / 16, kDiskBytesMax));
  }
  if (inodes == 0) inodes = disk / kBytesPerInodeOnDisk;
  TRY_VOID(check_range<std::uint64_t>("disk_inodes", inodes, 64,
                                      (limits.disk_upper ? disk : kDiskBytesMax) / kBytesPerInode));
  return spawner::SandboxLimits{.memory_bytes = limits.memory_bytes,
                                .swap_bytes = limits.swap_bytes,
                                .pids = limits.pids,
                                .cpu_percent = limits.cpu_percent,
                                .disk_bytes = disk,
                                .disk_inodes = inodes,
                                .io_read_bytes = limits.io_read_bytes_per_second,
                                .io_write_bytes = limits.io_write_bytes_per_second,
                                .io_read_operations = limits.io_read_operations_per_second,
                                .io_write_operations = limits.io_write_operations_per_second};
}

void clear_io_limits(Limits& limits) {
  limits.io_read_bytes_per_second = 0;
  limits.io_write_bytes_per_second = 0;
  limits.io_read_operations_per_second = 0;
  limits.io_write_operations_per_second = 0;
}

Result<void> settle_disk(const Limits& asked, const spawner::SandboxLimits& have,
                         spawner::SandboxLimits& wanted) {
  const bool same_size = asked.disk_bytes == 0 || wanted.disk_bytes == have.disk_bytes;
  if (asked.disk_upper && wanted.disk_bytes < have.disk_bytes)
    return invalid(
        fmt::format("the disk of this sandbox has {} bytes and can only grow", have.disk_bytes));
  if (asked.disk_upper && asked.disk_inodes != 0 && asked.disk_inodes != have.disk_inodes)
    return invalid("disk_inodes is settled when a sandbox is created; they grow with disk_bytes");
  const bool fits = asked.memory_bytes >= have.memory_bytes ||
                    fits_into_memory(have.disk_bytes, have.disk_inodes, asked.memory_bytes);
  if (!asked.disk_upper && (!same_size || !fits))
    return invalid(
        fmt::format("the disk of this sandbox has {} bytes, which cannot change and must fit into "
                    "its memory",
                    have.disk_bytes));
  if (!asked.disk_upper) wanted.disk_bytes = have.disk_bytes;
  wanted.disk_inodes = have.disk_inodes;
  return {};
}

Error explain_disk(Error error) {
  if (error.step == std::string_view(spawner::name_of(spawner::Step::kIoLimits))) {
    const char* missing = missing_for_io(error.os_error);
    if (missing == nullptr) return error;
    error.code = ErrorCode::kUnsupported;
    error.message = fmt::format("this host cannot limit io_…_per_second: {}", missing);
    return error;
  }
  switch (error.os_error) {
    case EOPNOTSUPP:
      error.message = "this host cannot give a sandbox a disk: install the package e2fsprogs";
      break;
    case ENOSPC:
      error.message = "the host's disk has less room than disk_bytes asks for";
      break;
    case EPERM:
      error.message =
          "this host does not let file systems grow; create a sandbox with a larger "
          "disk_bytes";
      break;
    default:
      break;
  }
  return error;
}

Result<void> check_sandbox_id(std::string_view id) {
  if (is_name(id, "-")) return {};
  return make_error(ErrorCode::kInvalid, "check id",
                    "a sandbox's id has 1 to 64 characters of a-z, 0-9 and -");
}

Result<void> check_job_id(std::string_view id) {
  // Control characters are left to the warden's own jobs.
  if (!id.empty() && id.size() <= cell::kJobNameBytes && is_valid_utf8(id) &&
      std::ranges::all_of(id, [](char c) { return static_cast<unsigned char>(c) >= ' '; }))
    return {};
  return make_error(ErrorCode::kInvalid, "check id",
                    "a job's id is UTF-8 of 1 to 96 bytes without control characters");
}

Result<void> check_template_name(std::string_view name) {
  if (is_name(name, "._-") && name[0] != '.' && name[0] != '-') return {};
  return make_error(ErrorCode::kInvalid, "check name",
                    "a template's name has 1 to 64 characters of a-z, 0-9, '.', '_' and '-', and "
                    "begins with a letter or digit");
}

Result<void> check_labels(const std::map<std::string, std::string>& labels) {
  return check_texts("labels", labels);
}

Result<void> check_create_request(const CreateRequest& request) {
  if (!request.id.empty()) TRY_VOID(check_sandbox_id(request.id));
  if (!request.hostname.empty() && !is_name(request.hostname, ".-ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    return make_error(ErrorCode::kInvalid, "check request",
                      "hostname has 1 to 64 characters of A-Z, a-z, 0-9, '.' and '-'");
  TRY_VOID(check_texts("environment", request.environment));
  TRY_VOID(check_labels(request.labels));
  constexpr std::size_t kPolicyBytesMax = 256 << 10;
  if (request.network.policy.size() > kPolicyBytesMax || request.network.environment.size() > 64)
    return make_error(ErrorCode::kInvalid, "check request", "the network policy is too long");
  if (!request.network.policy.empty() && !request.network.environment.empty())
    return make_error(ErrorCode::kInvalid, "check request",
                      "network has an environment or a policy of its own, not both");
  return {};
}

}  // namespace pons::sandbox
