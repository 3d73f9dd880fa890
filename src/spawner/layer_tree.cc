#include "layer_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "ground.h"
#include "pons/linux/fd.h"

namespace pons::spawner {

namespace {

using linux::UniqueFd;

constexpr off_t kFileBytesMax = off_t{64} << 30;
constexpr int kDepthMax = 256;  // directories held open at once, on each side
// The overlay's own attributes. Each kind means something only to overlays of that kind: in the
// other one it is a file's content, written by anybody.
struct Marks {
  std::string_view prefix;
  const char* opaque;
  const char* redirect;
};
constexpr Marks kTrusted{"trusted.overlay.", "trusted.overlay.opaque", "trusted.overlay.redirect"};
constexpr Marks kUser{"user.overlay.", "user.overlay.opaque", "user.overlay.redirect"};

const Marks& marks_of(Privileges privileges) {
  return privileges == Privileges::kHostRoot ? kTrusted : kUser;
}

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

Result<Directory> open_directory(int parent, const char* name) {
  UniqueFd fd(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return os_error("open directory");
  DIR* const stream = fdopendir(fd.get());
  if (stream == nullptr) return os_error("open directory");
  (void)fd.release();
  return Directory(stream, closedir);
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

bool has_attribute(int fd, const char* name) {
  return fgetxattr(fd, name, nullptr, 0) >= 0;
}

bool is_opaque(int directory, const Marks& marks) {
  char value = 0;
  return fgetxattr(directory, marks.opaque, &value, 1) == 1 && value == 'y';
}

// ---- deleting

// What lies too deep is moved up to `top` first, where it is found again.
Result<void> empty_directory(int directory, int top, int depth, unsigned& moved) {
  for (const std::string& name : TRY(names_in(directory))) {
    if (unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) continue;
    if (errno != EISDIR && errno != EPERM) return os_error("delete file");
    if (depth >= kDepthMax) {
      const std::string aside = fmt::format("deep-{}-{}", getpid(), moved++);
      if (renameat(directory, name.c_str(), top, aside.c_str()) != 0) return os_error("move aside");
      continue;
    }
    const UniqueFd child = TRY(open_child(directory, name));
    TRY_VOID(empty_directory(child.get(), top, depth + 1, moved));
    if (unlinkat(directory, name.c_str(), AT_REMOVEDIR) != 0) return os_error("delete directory");
  }
  return {};
}

// ---- merging and copying

// Marks of the other kind mean nothing here, but could to whoever reads a copy.
bool is_left_behind(std::string_view name, const Marks& marks) {
  if (name == marks.opaque || name == marks.redirect) return false;
  return name.starts_with(kTrusted.prefix) || name.starts_with(kUser.prefix);
}

Result<void> copy_attributes(int from, int to, const Marks& marks) {
  char names[8192];
  const ssize_t size = flistxattr(from, names, sizeof names);
  if (size < 0) return os_error("list attributes");
  for (std::string_view rest(names, static_cast<std::size_t>(size)); !rest.empty();) {
    const std::string name(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(name.size() + 1);
    if (is_left_behind(name, marks)) continue;
    char value[65'536];
    const ssize_t length = fgetxattr(from, name.c_str(), value, sizeof value);
    if (length < 0 || fsetxattr(to, name.c_str(), value, static_cast<std::size_t>(length), 0) != 0)
      return os_error("copy attribute", name);
  }
  return {};
}

struct Owner {
  uid_t uid;
  gid_t gid;
};

Result<void> dress(int fd, const struct stat& info, const Owner& owner) {
  const timespec times[2] = {info.st_atim, info.st_mtim};
  // The mode after the owner: a change of owner takes the setuid bits away.
  if (fchown(fd, owner.uid, owner.gid) != 0 || fchmod(fd, info.st_mode & 07777) != 0 ||
      futimens(fd, times) != 0)
    return os_error("set owner and mode");
  return {};
}

Result<UniqueFd> make_directory(int parent, const std::string& name) {
  if (mkdirat(parent, name.c_str(), 0700) != 0) return os_error("make directory");
  return open_child(parent, name);
}

// The directories called `name` in several layers, topmost first. Nothing of the layers after one
// that is opaque there, or holds something else by that name, can be seen.
struct Stack {
  std::vector<UniqueFd> directories;
  bool cut = false;

  std::vector<int> descriptors() const {
    std::vector<int> all;
    for (const UniqueFd& directory : directories) all.push_back(directory.get());
    return all;
  }
};

Result<Stack> gather(const std::vector<int>& layers, std::size_t first, const std::string& name,
                     const Marks& marks) {
  Stack stack;
  for (std::size_t i = first; i < layers.size() && !stack.cut; ++i) {
    const auto info = inspect(layers[i], name);
    if (!info && info.error().code == ErrorCode::kNotFound) continue;
    if (!info) return info.error();
    if (!S_ISDIR(info->st_mode)) {
      stack.cut = true;
      break;
    }
    UniqueFd directory = TRY(open_child(layers[i], name));
    if (has_attribute(directory.get(), marks.redirect))
      return os_error("merge layers", "a directory was moved", EOPNOTSUPP);
    stack.cut = is_opaque(directory.get(), marks);
    stack.directories.push_back(std::move(directory));
  }
  return stack;
}

Result<void> merge_into(const std::vector<int>& layers, const std::vector<int>& below, int to,
                        int depth, const Marks& marks);

Result<void> merge_directory(const Stack& stack, const std::vector<int>& below, int to,
                             const std::string& name, int depth, const Marks& marks) {
  Stack under;
  if (!stack.cut) under = TRY(gather(below, 0, name, marks));
  const UniqueFd made = TRY(make_directory(to, name));
  TRY_VOID(merge_into(stack.descriptors(), under.descriptors(), made.get(), depth + 1, marks));
  const int top = stack.directories.front().get();
  TRY_VOID(copy_attributes(top, made.get(), marks));
  if (stack.cut && fsetxattr(made.get(), marks.opaque, "y", 1, 0) != 0)
    return os_error("mark directory opaque");
  struct stat info{};
  if (fstat(top, &info) != 0) return os_error("inspect directory");
  return dress(made.get(), info, {info.st_uid, info.st_gid});
}

bool is_in_any(const std::vector<int>& directories, const std::string& name) {
  return std::ranges::any_of(directories,
                             [&](int directory) { return inspect(directory, name).has_value(); });
}

Result<void> merge_into(const std::vector<int>& layers, const std::vector<int>& below, int to,
                        int depth, const Marks& marks) {
  if (depth > kDepthMax) return os_error("merge layers", "directories lie too deep", EOPNOTSUPP);
  std::set<std::string, std::less<>> seen;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const std::string& name : TRY(names_in(layers[i]))) {
      if (!seen.insert(name).second) continue;
      const struct stat info = TRY(inspect(layers[i], name));
      if (S_ISDIR(info.st_mode)) {
        const Stack stack = TRY(gather(layers, i, name, marks));
        TRY_VOID(merge_directory(stack, below, to, name, depth, marks));
        continue;
      }
      // A whiteout that hides nothing would be seen: the kernel looks for them only in directories
      // that it puts together from several layers.
      if (is_whiteout(info) && !is_in_any(below, name)) continue;
      if (linkat(layers[i], name.c_str(), to, name.c_str(), 0) != 0) return os_error("link file");
    }
  }
  return {};
}

// Only what is there: a hole costs its owner nothing, and must cost the host nothing either.
Result<void> copy_bytes(int from, int to, off_t size) {
  if (ftruncate(to, size) != 0) return os_error("copy file");
  std::vector<char> buffer(1 << 18);
  for (off_t at = 0; at < size;) {
    at = lseek(from, at, SEEK_DATA);
    if (at < 0 && errno == ENXIO) return {};
    const off_t end = at < 0 ? -1 : lseek(from, at, SEEK_HOLE);
    if (end < 0) return os_error("copy file");
    while (at < end) {
      const std::size_t wanted = std::min(buffer.size(), static_cast<std::size_t>(end - at));
      const ssize_t got = pread(from, buffer.data(), wanted, at);
      if (got <= 0) return os_error("copy file", "it changed meanwhile", got == 0 ? EIO : errno);
      if (pwrite(to, buffer.data(), static_cast<std::size_t>(got), at) != got)
        return os_error("copy file");
      at += got;
    }
  }
  return {};
}

class Copier {
 public:
  Copier(int root, std::uint32_t from_id, std::uint32_t to_id, const Marks& marks)
      : root_(root), from_id_(from_id), to_id_(to_id), marks_(marks) {}

  Result<void> copy_directory(int from, int to, const std::string& path, int depth) {
    if (depth > kDepthMax) return os_error("copy layer", "directories lie too deep", ENAMETOOLONG);
    for (const std::string& name : TRY(names_in(from)))
      TRY_VOID(copy_entry(from, to, name, path.empty() ? name : path + "/" + name, depth));
    struct stat info{};
    if (fstat(from, &info) != 0) return os_error("inspect directory");
    TRY_VOID(copy_attributes(from, to, marks_));
    return dress(to, info, owner_of(info));
  }

 private:
  // Ids from outside of the sandbox's range can only be the overlay's own root.
  std::uint32_t moved(std::uint32_t id) const {
    return to_id_ + (id >= from_id_ && id - from_id_ < kIdsPerSandbox ? id - from_id_ : 0);
  }
  Owner owner_of(const struct stat& info) const { return {moved(info.st_uid), moved(info.st_gid)}; }

  Result<void> copy_entry(int from, int to, const std::string& name, const std::string& path,
                          int depth) {
    const struct stat info = TRY(inspect(from, name));
    if (S_ISDIR(info.st_mode)) {
      const UniqueFd source = TRY(open_child(from, name));
      const UniqueFd made = TRY(make_directory(to, name));
      return copy_directory(source.get(), made.get(), path, depth + 1);
    }
    if (info.st_nlink > 1 && !is_whiteout(info)) {
      const auto [known, fresh] = linked_.try_emplace(info.st_ino, path);
      if (!fresh) {
        if (linkat(root_, known->second.c_str(), to, name.c_str(), 0) != 0)
          return os_error("link file");
        return {};
      }
    }
    if (S_ISREG(info.st_mode)) return copy_file(from, to, name, info);
    if (S_ISLNK(info.st_mode)) return copy_link(from, to, name, info);
    if (is_whiteout(info) && mknodat(to, name.c_str(), S_IFCHR, 0) != 0)
      return os_error("mark deleted file");
    return {};  // pipes and sockets are of no use to anybody later
  }

  Result<void> copy_file(int from, int to, const std::string& name, const struct stat& info) {
    // Its size is read again byte by byte when the copy gets its name.
    if (info.st_size > kFileBytesMax) return os_error("copy file", "it is too large", EFBIG);
    const UniqueFd source(
        openat(from, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    const UniqueFd made(
        openat(to, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!source || !made) return os_error("copy file");
    TRY_VOID(copy_bytes(source.get(), made.get(), info.st_size));
    TRY_VOID(dress(made.get(), info, owner_of(info)));
    return copy_attributes(source.get(), made.get(), marks_);
  }

  Result<void> copy_link(int from, int to, const std::string& name, const struct stat& info) {
    char target[4097];
    const ssize_t size = readlinkat(from, name.c_str(), target, sizeof target - 1);
    if (size < 0) return os_error("read link");
    target[size] = '\0';
    const Owner owner = owner_of(info);
    if (symlinkat(target, to, name.c_str()) != 0 ||
        fchownat(to, name.c_str(), owner.uid, owner.gid, AT_SYMLINK_NOFOLLOW) != 0)
      return os_error("copy link");
    return {};
  }

  int root_;
  std::uint32_t from_id_;
  std::uint32_t to_id_;
  const Marks& marks_;
  std::map<ino_t, std::string> linked_;
};

}  // namespace

Result<void> remove_tree(int directory, const std::string& name) {
  if (unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return os_error("delete file");
  const UniqueFd top = TRY(open_child(directory, name));
  // Each pass leaves what lay too deep in the top directory, nearer to the end.
  for (unsigned moved = 0, before = 1; before != moved;) {
    before = moved;
    TRY_VOID(empty_directory(top.get(), top.get(), 0, moved));
  }
  if (unlinkat(directory, name.c_str(), AT_REMOVEDIR) != 0) return os_error("delete directory");
  return {};
}

Result<void> merge_layers(const std::vector<int>& layers, const std::vector<int>& below, int to,
                          Privileges privileges) {
  TRY_VOID(merge_into(layers, below, to, 0, marks_of(privileges)));
  struct stat info{};
  if (fstat(layers.front(), &info) != 0) return os_error("inspect layer");
  return dress(to, info, {info.st_uid, info.st_gid});
}

Result<void> copy_layer(int layer, int to, std::uint32_t from_id, std::uint32_t to_id,
                        Privileges privileges) {
  return Copier(to, from_id, to_id, marks_of(privileges)).copy_directory(layer, to, "", 0);
}

}  // namespace pons::spawner
