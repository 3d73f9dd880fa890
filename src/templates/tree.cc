#include "pons/templates/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "pons/linux/fd.h"
#include "sha256.h"

namespace pons::templates {
namespace {

using linux::UniqueFd;

constexpr std::string_view kUserOpaque = "user.overlay.opaque";
constexpr const char* kTrustedOpaque = "trusted.overlay.opaque";
constexpr std::size_t kAttributeListBytesMax = 64 * 1024;

struct DirectoryTraits {
  using Value = DIR*;
  static DIR* empty() { return nullptr; }
  static void close(DIR* directory) noexcept { closedir(directory); }
};
using UniqueDirectory = UniqueHandle<DirectoryTraits>;

Result<std::vector<std::string>> sorted_names(int directory_fd) {
  UniqueFd own = TRY(linux::duplicate(directory_fd));
  UniqueDirectory directory(fdopendir(own.get()));
  if (!directory) return os_error("list directory");
  [[maybe_unused]] const int adopted = own.release();
  rewinddir(directory.get());
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return os_error("list directory");
  std::ranges::sort(names);
  return names;
}

// Lengths before bytes: no name or value can pass for the one after it.
void add_field(Sha256& hash, std::string_view bytes) {
  hash.add(fmt::format("{}:", bytes.size()));
  hash.add(bytes);
}

class TreeReader {
 public:
  TreeReader(OpaqueMarks marks, const TreeLimits& limits) : marks_(marks), limits_(limits) {}

  Result<void> read_directory(int fd, const std::string& path, std::uint32_t depth) {
    if (depth > limits_.depth)
      return make_error(ErrorCode::kLimit, "read tree",
                        fmt::format("directories deeper than {} levels", limits_.depth));
    for (const std::string& name : TRY(sorted_names(fd))) {
      if (++summary_.files > limits_.files)
        return make_error(ErrorCode::kLimit, "read tree",
                          fmt::format("more than {} files", limits_.files));
      TRY_VOID(check_interrupt(limits_.interrupt_fd));
      TRY_VOID(read_entry(fd, name, path + "/" + name, depth));
    }
    return {};
  }

  // The root's own mode and owner count, its name does not.
  Result<void> read_root(int fd) {
    struct stat status{};
    if (fstat(fd, &status) != 0) return os_error("read tree");
    add_head('d', "", status);
    TRY_VOID(read_attributes(fd, true));
    return read_directory(fd, "", 1);
  }

  TreeSummary finish() {
    summary_.digest = hash_.finish_hex();
    return summary_;
  }

 private:
  void add_head(char type, std::string_view path, const struct stat& status) {
    hash_.add({&type, 1});
    add_field(hash_, path);
    hash_.add(fmt::format("{:o} {} {};", status.st_mode & 07777, status.st_uid, status.st_gid));
  }

  Result<void> read_entry(int parent, const std::string& name, const std::string& path,
                          std::uint32_t depth) {
    struct stat status{};
    if (fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      return os_error("read tree", path);
    if (S_ISCHR(status.st_mode) && status.st_rdev == makedev(0, 0)) {
      hash_.add("w");
      add_field(hash_, path);
      return {};
    }
    if (!S_ISDIR(status.st_mode) && status.st_nlink > 1 && joins_earlier(path, status)) return {};
    if (S_ISLNK(status.st_mode)) return read_link(parent, name, path, status);
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
      return make_error(ErrorCode::kInvalid, "read tree", path + " is a device, pipe or socket");
    const bool directory = S_ISDIR(status.st_mode);
    const UniqueFd fd(openat(
        parent, name.c_str(),
        O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (directory ? O_DIRECTORY : 0)));
    if (!fd) return os_error("read tree", path);
    add_head(directory ? 'd' : 'f', path, status);
    TRY_VOID(read_attributes(fd.get(), directory));
    if (directory) return read_directory(fd.get(), path, depth + 1);
    return read_content(fd.get(), path);
  }

  // Names of one file are listed as such: a layer with two links is not one with two copies.
  bool joins_earlier(const std::string& path, const struct stat& status) {
    const auto [place, first] = names_.try_emplace({status.st_dev, status.st_ino}, path);
    if (first) return false;
    hash_.add("h");
    add_field(hash_, path);
    add_field(hash_, place->second);
    return true;
  }

  Result<void> read_link(int parent, const std::string& name, const std::string& path,
                         const struct stat& status) {
    std::string target(4096, '\0');
    const ssize_t size = readlinkat(parent, name.c_str(), target.data(), target.size());
    if (size < 0) return os_error("read link", path);
    target.resize(static_cast<std::size_t>(size));
    struct stat modeless = status;
    modeless.st_mode = S_IFLNK;  // Linux ignores it, and file systems disagree about it
    add_head('l', path, modeless);
    add_field(hash_, target);
    return {};
  }

  Result<void> read_content(int fd, const std::string& path) {
    std::string block(std::size_t{256} << 10, '\0');
    Sha256 content;
    std::uint64_t size = 0;
    for (;;) {
      const ssize_t got = read(fd, block.data(), block.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return os_error("read file", path);
      if (got == 0) break;
      content.add({block.data(), static_cast<std::size_t>(got)});
      size += static_cast<std::uint64_t>(got);
      summary_.bytes += static_cast<std::uint64_t>(got);
      if (summary_.bytes > limits_.bytes)
        return make_error(ErrorCode::kLimit, "read tree",
                          fmt::format("more than {} bytes", limits_.bytes));
    }
    hash_.add(fmt::format("{};", size));
    add_field(hash_, content.finish_hex());
    return {};
  }

  Result<void> read_attributes(int fd, bool directory) {
    std::string list(kAttributeListBytesMax, '\0');
    const ssize_t size = flistxattr(fd, list.data(), list.size());
    if (size < 0 && (errno == ENOTSUP || errno == EOPNOTSUPP)) return {};
    if (size < 0) return os_error("list attributes");
    std::map<std::string, std::string> values;
    bool opaque = false;
    for (ssize_t at = 0; at < size;) {
      const std::string name = list.c_str() + at;
      at += static_cast<ssize_t>(name.size()) + 1;
      if (name == kUserOpaque || name == kTrustedOpaque) {
        opaque = directory;
        if (name == kUserOpaque && marks_ == OpaqueMarks::kPromote) TRY_VOID(promote(fd));
      } else if (name == "security.capability" || name.starts_with("user.")) {
        values[name] = TRY(attribute(fd, name));
      }
    }
    if (opaque) hash_.add("o;");
    for (const auto& [name, value] : values) {
      hash_.add("x");
      add_field(hash_, name);
      add_field(hash_, value);
    }
    return {};
  }

  static Result<std::string> attribute(int fd, const std::string& name) {
    std::string value(kAttributeListBytesMax, '\0');
    const ssize_t size = fgetxattr(fd, name.c_str(), value.data(), value.size());
    if (size < 0) return os_error("read attribute");
    value.resize(static_cast<std::size_t>(size));
    return value;
  }

  static Result<void> promote(int fd) {
    if (fsetxattr(fd, kTrustedOpaque, "y", 1, 0) != 0 || fremovexattr(fd, kUserOpaque.data()) != 0)
      return os_error("mark directory opaque");
    return {};
  }

  OpaqueMarks marks_;
  TreeLimits limits_;
  Sha256 hash_;
  TreeSummary summary_;
  std::map<std::pair<dev_t, ino_t>, std::string> names_;
};

}  // namespace

Result<TreeSummary> digest_tree(int directory_fd, OpaqueMarks marks, const TreeLimits& limits) {
  TreeReader reader(marks, limits);
  TRY_VOID(reader.read_root(directory_fd));
  return reader.finish();
}

Result<void> check_interrupt(int interrupt_fd) {
  if (interrupt_fd < 0) return {};
  pollfd entry{.fd = interrupt_fd, .events = POLLIN, .revents = 0};
  if (poll(&entry, 1, 0) != 1) return {};
  return make_error(ErrorCode::kUnavailable, "make template", "interrupted; nothing was kept");
}

Result<void> remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return os_error("remove tree", path, error.value());
  return {};
}

}  // namespace pons::templates
