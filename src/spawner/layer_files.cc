#include "layer_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <memory>

namespace pons::spawner {

namespace {

using linux::UniqueFd;

constexpr Marks kTrusted{"trusted.overlay.", "trusted.overlay.opaque", "trusted.overlay.redirect"};
constexpr Marks kUser{"user.overlay.", "user.overlay.opaque", "user.overlay.redirect"};

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

Result<Directory> open_directory(int parent, const char* name) {
  UniqueFd fd(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return os_error("open directory");
  DIR* const stream = fdopendir(fd.get());
  if (stream == nullptr) return os_error("open directory");
  (void)fd.release();
  return Directory(stream, closedir);
}

// Marks of the other kind mean nothing here, but could to whoever reads a copy.
bool is_left_behind(std::string_view name, const Marks& marks, CopyMarks own) {
  if (name == marks.opaque || name == marks.redirect) return own == CopyMarks::kNo;
  return name.starts_with(kTrusted.prefix) || name.starts_with(kUser.prefix);
}

}  // namespace

const Marks& marks_of(Privileges privileges) {
  return privileges == Privileges::kHostRoot ? kTrusted : kUser;
}

Result<std::vector<std::string>> names_in(int directory) {
  const Directory stream = TRY(open_directory(directory, "."));
  std::vector<std::string> names;
  errno = 0;
  for (const dirent* entry; (entry = readdir(stream.get())) != nullptr;) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return os_error("read directory");
  return names;
}

Result<UniqueFd> open_child(int directory, const std::string& name) {
  UniqueFd fd(openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return os_error("open directory");
  return fd;
}

Result<struct stat> inspect(int directory, const std::string& name) {
  struct stat info{};
  if (fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return os_error("inspect file");
  return info;
}

bool is_whiteout(const struct stat& info) {
  return S_ISCHR(info.st_mode) && info.st_rdev == 0;
}

bool is_opaque(int directory, const Marks& marks) {
  char value = 0;
  return fgetxattr(directory, marks.opaque, &value, 1) == 1 && value == 'y';
}

Result<void> copy_attributes(int from, int to, const Marks& marks, CopyMarks own) {
  char names[8192];
  const ssize_t size = flistxattr(from, names, sizeof names);
  if (size < 0) return os_error("list attributes");
  for (std::string_view rest(names, static_cast<std::size_t>(size)); !rest.empty();) {
    const std::string name(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(name.size() + 1);
    if (is_left_behind(name, marks, own)) continue;
    char value[65'536];
    const ssize_t length = fgetxattr(from, name.c_str(), value, sizeof value);
    if (length < 0 || fsetxattr(to, name.c_str(), value, static_cast<std::size_t>(length), 0) != 0)
      return os_error("copy attribute", name);
  }
  return {};
}

Result<void> dress(int fd, const struct stat& info, const Owner& owner) {
  const timespec times[2] = {info.st_atim, info.st_mtim};
  // The mode after the owner: a change of owner takes the setuid bits away.
  if (fchown(fd, owner.uid, owner.gid) != 0 || fchmod(fd, info.st_mode & 07777) != 0 ||
      futimens(fd, times) != 0)
    return os_error("set owner and mode");
  return {};
}

Result<UniqueFd> make_child(int directory, const std::string& name) {
  if (mkdirat(directory, name.c_str(), 0700) != 0) return os_error("make directory");
  return open_child(directory, name);
}

}  // namespace pons::spawner
