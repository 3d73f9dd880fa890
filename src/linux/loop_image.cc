#include "pons/linux/loop_image.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/linux/child.h"

namespace pons::linux {
namespace {

constexpr std::uint64_t kBytesMin = 8ULL << 20;
constexpr std::chrono::minutes kFormatDeadline{2};
constexpr std::size_t kFormatWordsMax = 64 * 1024;
constexpr int kAttachAttempts = 32;

struct PathTraits {
  using Value = std::string;
  static std::string empty() { return {}; }
  static void close(const std::string& path) noexcept { unlink(path.c_str()); }
};
using TemporaryFile = UniqueHandle<PathTraits>;

const char* mkfs_program() {
  return access("/usr/sbin/mkfs.ext4", X_OK) == 0 ? "/usr/sbin/mkfs.ext4" : "/sbin/mkfs.ext4";
}

Result<void> run_mkfs(const std::string& path, std::uint64_t inodes) {
  Pipe words = TRY(create_pipe());
  auto child = ChildProcess::spawn(
      mkfs_program(),
      // No journal and no reserved blocks: the file system ends with its sandbox, and nobody but
      // the sandbox's own root could use the reserve.
      {.argv = {"mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-O",
                "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard,root_owner=0:0",
                "-N", fmt::format("{}", inodes), path},
       .environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"},
       .descriptors = {{words.write_end.get(), 2}}});
  if (!child)
    return make_error(ErrorCode::kUnsupported, "format image",
                      "mkfs.ext4 cannot be started; install the package e2fsprogs");
  words.write_end.reset();
  const auto deadline = std::chrono::steady_clock::now() + kFormatDeadline;
  const auto status = child->wait_until(deadline);
  if (!status) return make_error(ErrorCode::kTimeout, "format image", "mkfs.ext4 takes too long");
  if (!status->success())
    return make_error(ErrorCode::kIo, "format image",
                      read_all(words.read_end.get(), kFormatWordsMax).value_or(status->describe()));
  return {};
}

// Data only: what is a hole in the one is a hole in the other.
Result<void> copy_data(int from, int to, off_t size) {
  off_t at = 0;
  while (at < size) {
    const off_t data = lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return {};
    const off_t hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
    if (hole < 0) return os_error("find data of image");
    off_t in = data;
    off_t out = data;
    while (in < hole) {
      const ssize_t copied =
          copy_file_range(from, &in, to, &out, static_cast<std::size_t>(hole - in), 0);
      if (copied < 0 && errno == EINTR) continue;
      if (copied <= 0) return os_error("copy image");
    }
    at = hole;
  }
  return {};
}

Result<void> copy_content(int from, int to) {
  struct stat status{};
  if (fstat(from, &status) != 0 || !S_ISREG(status.st_mode))
    return make_error(ErrorCode::kInvalid, "copy image", "it is not a regular file");
  if (ioctl(to, FICLONE, from) == 0) return {};
  if (ftruncate(to, status.st_size) != 0) return os_error("size image");
  return copy_data(from, to, status.st_size);
}

}  // namespace

bool can_create_ext4_images() {
  return access(mkfs_program(), X_OK) == 0;
}

Result<void> create_ext4_image(const std::string& path, Ext4Size size) {
  if (size.bytes < kBytesMin || size.inodes < 16)
    return make_error(ErrorCode::kInvalid, "format image", "at least 8 MiB and 16 inodes");
  const TemporaryFile temporary(fmt::format("{}.tmp-{}", path, random_text(12)));
  {
    const UniqueFd file = TRY(open_file(temporary.get(), O_RDWR | O_CREAT | O_EXCL, 0600));
    if (ftruncate(file.get(), static_cast<off_t>(size.bytes)) != 0)
      return os_error("size image", path);
  }
  TRY_VOID(run_mkfs(temporary.get(), size.inodes));
  if (rename(temporary.get().c_str(), path.c_str()) != 0) return os_error("create image", path);
  return {};  // the old name is gone, so deleting it does nothing
}

Result<void> copy_image(const std::string& from, const std::string& to) {
  const UniqueFd source = TRY(open_file(from, O_RDONLY | O_NOFOLLOW));
  const UniqueFd target = TRY(open_file(to, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  TemporaryFile unfinished(to);
  TRY_VOID(copy_content(source.get(), target.get()));
  [[maybe_unused]] const std::string finished = unfinished.release();
  return {};
}

Result<UniqueFd> copy_image_unnamed(const std::string& from, const std::string& directory) {
  const UniqueFd source = TRY(open_file(from, O_RDONLY | O_NOFOLLOW));
  const std::string name = fmt::format("{}/copy-{}", directory, random_text(12));
  UniqueFd target = TRY(open_file(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  if (unlink(name.c_str()) != 0) return os_error("take the name off image", name);
  TRY_VOID(copy_content(source.get(), target.get()));
  return target;
}

Result<LoopImage> LoopImage::attach(const std::string& image_path) {
  const UniqueFd backing(open(image_path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!backing) return os_error("open image", image_path);
  const UniqueFd devices = TRY(open_file("/dev", O_PATH | O_DIRECTORY));
  return attach(backing.get(), devices.get());
}

Result<LoopImage> LoopImage::attach(int image_fd, int devices_fd) {
  const UniqueFd control(openat(devices_fd, "loop-control", O_RDWR | O_CLOEXEC));
  if (!control) return os_error("open loop device", "loop-control");
  for (int attempt = 0; attempt < kAttachAttempts; ++attempt) {
    const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return os_error("find free loop device");
    const std::string device = fmt::format("/dev/loop{}", number);
    UniqueFd loop(openat(devices_fd, fmt::format("loop{}", number).c_str(), O_RDWR | O_CLOEXEC));
    if (!loop) return os_error("open loop device", device);
    loop_config config{};
    config.fd = static_cast<std::uint32_t>(image_fd);
    config.block_size = 4096;
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    bool direct = true;
    int outcome = ioctl(loop.get(), LOOP_CONFIGURE, &config);
    if (outcome != 0 && errno == EINVAL) {
      // The backing file system does not take direct writes: the page cache holds them twice then.
      direct = false;
      config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
      outcome = ioctl(loop.get(), LOOP_CONFIGURE, &config);
    }
    if (outcome == 0) return LoopImage(std::move(loop), device, direct);
    // Somebody else was given the same number and was faster.
    if (errno != EBUSY) return os_error("configure loop device", device);
  }
  return make_error(ErrorCode::kConflict, "configure loop device",
                    "others take each free device first");
}

}  // namespace pons::linux
