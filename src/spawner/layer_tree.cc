#include "layer_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "ground.h"
#include "layer_files.h"

namespace pons::spawner {

namespace {

using linux::UniqueFd;

constexpr off_t kFileBytesMax = off_t{64} << 30;

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

// ---- copying

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
    TRY_VOID(copy_attributes(from, to, marks_, CopyMarks::kYes));
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
      const UniqueFd made = TRY(make_child(to, name));
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
    return copy_attributes(source.get(), made.get(), marks_, CopyMarks::kYes);
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

Result<void> copy_layer(int layer, int to, std::uint32_t from_id, std::uint32_t to_id,
                        Privileges privileges) {
  return Copier(to, from_id, to_id, marks_of(privileges)).copy_directory(layer, to, "", 0);
}

}  // namespace pons::spawner
