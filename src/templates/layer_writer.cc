#include "layer_writer.h"

#include <archive_entry.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>

#include "pons/base/text.h"

namespace pons::templates {
namespace {

using linux::UniqueFd;

constexpr std::string_view kWhiteoutPrefix = ".wh.";
constexpr std::string_view kUnionPrefix = ".wh..wh.";
constexpr std::string_view kOpaqueName = ".wh..wh..opq";
constexpr const char* kOpaqueAttribute = "user.overlay.opaque";
constexpr std::size_t kPathBytesMax = 4095;
constexpr std::size_t kNameBytesMax = 255;
constexpr std::size_t kDepthMax = 256;
constexpr std::size_t kAttributeBytesMax = 64 * 1024;
constexpr la_int64_t kIdMax = 65535;
constexpr uid_t kNobody = 65534;

Error refusal(std::string message) {
  return make_error(ErrorCode::kInvalid, "extract layer", std::move(message));
}

UniqueFd open_in(int root, const std::string& path, std::uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(
      syscall(SYS_openat2, root, path.empty() ? "." : path.c_str(), &how, sizeof how)));
}

Result<std::vector<std::string>> parts_of(std::string_view path) {
  if (path.size() > kPathBytesMax)
    return make_error(ErrorCode::kLimit, "extract layer", "a path has more than 4095 bytes");
  std::vector<std::string> parts;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") return refusal("a path has \"..\" in it");
    if (part.size() > kNameBytesMax)
      return make_error(ErrorCode::kLimit, "extract layer", "a name has more than 255 bytes");
    parts.emplace_back(part);
  }
  if (parts.size() > kDepthMax)
    return make_error(ErrorCode::kLimit, "extract layer", "a path has more than 256 parts");
  return parts;
}

std::string join(const std::vector<std::string>& parts, std::size_t count) {
  std::string path;
  for (std::size_t i = 0; i < count; ++i) path += (i == 0 ? "" : "/") + parts[i];
  return path;
}

bool is_whiteout(const struct stat& status) {
  return S_ISCHR(status.st_mode) && status.st_rdev == makedev(0, 0);
}

// Capabilities of programs and what users attach themselves. Overlay's own attributes could point
// one file of the layer at another.
bool is_attribute_kept(std::string_view name) {
  if (name == "security.capability") return true;
  return name.starts_with("user.") && !name.starts_with("user.overlay.");
}

Result<void> set_attributes(int fd, archive_entry* entry) {
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  archive_entry_xattr_reset(entry);
  while (archive_entry_xattr_next(entry, &name, &value, &size) == 0) {
    if (name == nullptr || !is_attribute_kept(name)) continue;
    if (size > kAttributeBytesMax) return refusal("an attribute has more than 64 KiB");
    // Some file systems keep none, and a user namespace may not grant capabilities.
    if (fsetxattr(fd, name, value, size, 0) != 0 && errno != ENOTSUP && errno != EPERM)
      return os_error("set attribute");
  }
  return {};
}

}  // namespace

Result<int> LayerWriter::open_parent(const std::vector<std::string>& parts) {
  const std::size_t count = parts.size() - 1;
  const std::string path = join(parts, count);
  if (parent_ && parent_path_ == path) return parent_.get();
  parent_ = open_in(root_.get(), path, O_PATH | O_DIRECTORY);
  for (std::size_t depth = 1; !parent_ && depth <= count; ++depth) {
    const UniqueFd above = open_in(root_.get(), join(parts, depth - 1), O_PATH | O_DIRECTORY);
    if (!above) return os_error("open parent directory");
    const std::string& name = parts[depth - 1];
    if (mkdirat(above.get(), name.c_str(), 0755) != 0 && errno != EEXIST)
      return os_error("create parent directory");
    if (depth == count) parent_ = open_in(root_.get(), path, O_PATH | O_DIRECTORY);
  }
  if (!parent_) return os_error("open parent directory");
  parent_path_ = path;
  return parent_.get();
}

Result<LayerWriter::Place> LayerWriter::locate(std::string_view path) {
  const auto parts = TRY(parts_of(path));
  if (parts.empty()) return Place{.parent = root_.get(), .name = {}};
  return Place{.parent = TRY(open_parent(parts)), .name = parts.back()};
}

// Removes what an earlier entry of the same name left. A directory goes only when it is empty.
Result<void> LayerWriter::make_way(const Place& place) {
  parent_path_.reset();  // it may have led through what goes now
  if (unlinkat(place.parent, place.name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno == EISDIR && unlinkat(place.parent, place.name.c_str(), AT_REMOVEDIR) == 0) return {};
  return os_error("replace earlier entry");
}

Result<void> LayerWriter::mark_opaque(int parent, const std::string& name) {
  const UniqueFd directory(
      openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory || fsetxattr(directory.get(), kOpaqueAttribute, "y", 1, 0) != 0)
    return os_error("mark directory opaque");
  return {};
}

Result<void> LayerWriter::write_whiteout(const Place& place) {
  if (place.name == kOpaqueName) return mark_opaque(place.parent, ".");
  if (place.name.starts_with(kUnionPrefix)) return {};
  const std::string name = place.name.substr(kWhiteoutPrefix.size());
  if (name.empty() || name == "." || name == "..") return refusal("a whiteout names no file");
  struct stat status{};
  if (fstatat(place.parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    // Whiteouts speak of the layers below only: what this layer has stays.
    return S_ISDIR(status.st_mode) ? mark_opaque(place.parent, name) : Result<void>{};
  }
  if (mknodat(place.parent, name.c_str(), S_IFCHR, makedev(0, 0)) != 0)
    return os_error("create whiteout");
  ++counts_.files;
  return {};
}

Result<void> LayerWriter::set_owner(int fd, const std::string& name, archive_entry* entry) {
  la_int64_t uid = archive_entry_uid(entry);
  la_int64_t gid = archive_entry_gid(entry);
  if (uid < 0 || uid > kIdMax || gid < 0 || gid > kIdMax) {
    ++counts_.foreign_owners;
    if (uid < 0 || uid > kIdMax) uid = kNobody;
    if (gid < 0 || gid > kIdMax) gid = kNobody;
  }
  const int flags = AT_SYMLINK_NOFOLLOW | (name.empty() ? AT_EMPTY_PATH : 0);
  if (fchownat(fd, name.c_str(), static_cast<uid_t>(uid), static_cast<gid_t>(gid), flags) != 0 &&
      errno != EINVAL)  // EINVAL: not in this user namespace; the file stays the user's
    return os_error("set owner");
  return {};
}

Result<void> LayerWriter::write_directory(const Place& place, archive_entry* entry) {
  const std::string name = place.name.empty() ? "." : place.name;
  struct stat status{};
  bool hides_lower = false;
  if (!place.name.empty()) {
    if (fstatat(place.parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISDIR(status.st_mode)) {
      hides_lower = is_whiteout(status);
      TRY_VOID(make_way(place));
    }
    if (mkdirat(place.parent, name.c_str(), 0755) != 0 && errno != EEXIST)
      return os_error("create directory");
  }
  const UniqueFd directory(
      openat(place.parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return os_error("open directory");
  TRY_VOID(set_owner(directory.get(), "", entry));
  if (fchmod(directory.get(), archive_entry_perm(entry) & 07777) != 0) return os_error("set mode");
  TRY_VOID(set_attributes(directory.get(), entry));
  return hides_lower ? mark_opaque(place.parent, name) : Result<void>{};
}

Result<void> LayerWriter::write_symbolic_link(const Place& place, archive_entry* entry) {
  const char* target = archive_entry_symlink(entry);
  if (target == nullptr || *target == '\0') return refusal("a symbolic link has no target");
  TRY_VOID(make_way(place));
  if (symlinkat(target, place.parent, place.name.c_str()) != 0)
    return os_error("create symbolic link");
  return set_owner(place.parent, place.name, entry);
}

Result<void> LayerWriter::write_hard_link(const Place& place, const char* target) {
  const auto parts = TRY(parts_of(target));
  if (parts.empty()) return refusal("a hard link to the root");
  const UniqueFd parent = open_in(root_.get(), join(parts, parts.size() - 1), O_PATH | O_DIRECTORY);
  if (!parent) return refusal("a hard link to what is not in the layer");
  struct stat ours{};
  struct stat theirs{};
  if (fstatat(parent.get(), parts.back().c_str(), &theirs, AT_SYMLINK_NOFOLLOW) != 0)
    return refusal("a hard link to what is not in the layer");
  if (fstatat(place.parent, place.name.c_str(), &ours, AT_SYMLINK_NOFOLLOW) == 0 &&
      ours.st_ino == theirs.st_ino)
    return {};  // to itself
  TRY_VOID(make_way(place));
  if (linkat(parent.get(), parts.back().c_str(), place.parent, place.name.c_str(), 0) != 0)
    return os_error("create hard link");
  return {};
}

Result<int> LayerWriter::begin(archive_entry* entry) {
  const char* path = archive_entry_pathname(entry);
  if (path == nullptr) return refusal("a name that cannot be read");
  const Place place = TRY(locate(path));
  if (place.name.starts_with(kWhiteoutPrefix)) {
    TRY_VOID(write_whiteout(place));
    return -1;
  }
  const auto type = archive_entry_filetype(entry);
  const char* link = archive_entry_hardlink(entry);
  if (place.name.empty() && (link != nullptr || type != AE_IFDIR))
    return refusal("the root is not a directory");
  if (link == nullptr && type != AE_IFDIR && type != AE_IFLNK && type != AE_IFREG) {
    ++counts_.skipped;
    return -1;
  }
  ++counts_.files;
  if (link != nullptr || type != AE_IFREG) {
    TRY_VOID(link != nullptr    ? write_hard_link(place, link)
             : type == AE_IFDIR ? write_directory(place, entry)
                                : write_symbolic_link(place, entry));
    return -1;
  }
  TRY_VOID(make_way(place));
  file_ = UniqueFd(openat(place.parent, place.name.c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_) return os_error("create file");
  counts_.bytes += static_cast<std::uint64_t>(std::max<la_int64_t>(archive_entry_size(entry), 0));
  return file_.get();
}

Result<void> LayerWriter::end(archive_entry* entry) {
  if (!file_) return {};
  const UniqueFd file = std::move(file_);
  // A hole at the end has no block that would have made the file as long as it is.
  if (ftruncate(file.get(), archive_entry_size(entry)) != 0) return os_error("set size");
  // Changing the owner clears set-user-id and capabilities: it comes first.
  TRY_VOID(set_owner(file.get(), "", entry));
  if (fchmod(file.get(), archive_entry_perm(entry) & 07777) != 0) return os_error("set mode");
  TRY_VOID(set_attributes(file.get(), entry));
  const timespec times[2] = {{.tv_sec = archive_entry_mtime(entry), .tv_nsec = 0},
                             {.tv_sec = archive_entry_mtime(entry), .tv_nsec = 0}};
  if (futimens(file.get(), times) != 0) return os_error("set time");
  return {};
}

}  // namespace pons::templates
