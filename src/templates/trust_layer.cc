#include "pons/templates/trust_layer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "pons/linux/fd.h"
#include "skeleton.h"

namespace pons::templates {
namespace {

using Kind = SkeletonEntry::Kind;

constexpr std::size_t kEntriesMax = 64;
constexpr std::size_t kFileBytesMax = 8 << 20;
constexpr int kDepthMax = 8;

// What is read was written by a role that may have been broken into: never a link followed, never
// more than a little.
class TrustReader {
 public:
  explicit TrustReader(Skeleton& skeleton) : skeleton_(skeleton) {}

  Result<void> read_directory(int directory, const std::string& path, int depth) {
    if (depth > kDepthMax) return too_much();
    std::error_code error;
    const std::string place = "/proc/self/fd/" + std::to_string(directory);
    for (std::filesystem::directory_iterator entry(place, error), end; !error && entry != end;
         entry.increment(error))
      TRY_VOID(read_entry(directory, entry->path().filename().string(), path, depth));
    if (error) return os_error("read trust files", path, error.value());
    return {};
  }

 private:
  static Error too_much() {
    return make_error(ErrorCode::kLimit, "read trust files", "there are too many");
  }

  Result<void> read_entry(int directory, const std::string& name, const std::string& path,
                          int depth) {
    if (skeleton_.size() >= kEntriesMax) return too_much();
    const std::string full = path.empty() ? name : path + "/" + name;
    struct stat status{};
    if (fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      return os_error("read trust files", full);
    if (S_ISLNK(status.st_mode)) {
      std::array<char, 256> target{};
      const ssize_t size = readlinkat(directory, name.c_str(), target.data(), target.size());
      if (size <= 0 || size == ssize_t{target.size()}) return os_error("read trust files", full);
      skeleton_[full] = {.kind = Kind::kLink,
                         .content = {target.data(), static_cast<std::size_t>(size)}};
      return {};
    }
    const linux::UniqueFd file(
        openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file || fstat(file.get(), &status) != 0) return os_error("read trust files", full);
    if (S_ISDIR(status.st_mode)) {
      skeleton_[full] = {.kind = Kind::kDirectory};
      return read_directory(file.get(), full, depth + 1);
    }
    if (!S_ISREG(status.st_mode)) return too_much();
    skeleton_[full] = {.kind = Kind::kFile,
                       .mode = 0644,
                       .content = TRY(linux::read_all(file.get(), kFileBytesMax))};
    return {};
  }

  Skeleton& skeleton_;
};

}  // namespace

Result<std::string> ensure_trust_layer(const std::string& state_dir, const std::string& source) {
  Skeleton skeleton;
  // Places for what is mounted in every sandbox: an image may have none of them, or a link there.
  for (const char* place : {"dev", "proc", "sys"}) skeleton[place] = {.kind = Kind::kDirectory};
  const linux::UniqueFd root(open(source.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root && errno != ENOENT) return os_error("read trust files", source);
  if (root) TRY_VOID(TrustReader(skeleton).read_directory(root.get(), "", 0));
  return publish_skeleton(state_dir, "trust", skeleton);
}

}  // namespace pons::templates
