#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "pons/linux/fd.h"
#include "skeleton.h"

namespace pons::templates {
namespace {

using Kind = SkeletonEntry::Kind;
using linux::UniqueFd;

constexpr std::size_t kTotalBytesMax = std::size_t{32} << 20;
constexpr std::size_t kEntriesMax = 20'000;
constexpr int kDepthMax = 8;

// Below /etc. What is not here is not taken: a directory of settings is where people put passwords.
constexpr std::array kWanted = {
    "alternatives",
    "apt/keyrings",
    "apt/preferences.d",
    "apt/trusted.gpg.d",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates.conf",
    "localtime",
    "timezone",
    "mime.types",
    "services",
    "protocols",
    "bash.bashrc",
    "inputrc",
    "python3",
    "python3.*",
    "java-*-openjdk",
    "debian_version",
    "os-release",
    "locale.alias",
    "magic",
    "magic.mime",
    "perl",
    "fonts",
    "vim",
    "nanorc",
    "terminfo",
    "rpc",
    "ethertypes",
    "networks",
    "gai.conf",
    "bindresvport.blacklist",
    "libaudit.conf",
    "ImageMagick-6",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
};

// Kept out wherever they are, readable or not.
constexpr std::array kNever = {"*.key", "*private*",  "*shadow*",     "*secret*", "*.p12",
                               "*.jks", "*password*", "*credential*", "*.pfx"};

bool is_never(const std::string& name) {
  for (const char* pattern : kNever)
    if (fnmatch(pattern, name.c_str(), FNM_CASEFOLD) == 0) return true;
  return false;
}

// Where a link at `path` (below the root, without a leading slash) leads, as text.
bool stays_inside(const std::string& path, const std::string& target) {
  const std::filesystem::path base = std::filesystem::path("/" + path).parent_path();
  const std::string end = (base / target).lexically_normal().string();
  return end.starts_with("/etc/") || end.starts_with("/usr/");
}

class HostCopier {
 public:
  HostCopier(Skeleton& skeleton, std::string root) : skeleton_(skeleton), root_(std::move(root)) {}

  Result<void> copy_matching(const std::string& pattern) {
    const std::size_t slash = pattern.rfind('/');
    const std::string directory =
        slash == std::string::npos ? "etc" : "etc/" + pattern.substr(0, slash);
    const std::string last = slash == std::string::npos ? pattern : pattern.substr(slash + 1);
    std::error_code error;
    for (std::filesystem::directory_iterator entry(root_ + "/" + directory, error), end;
         !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (fnmatch(last.c_str(), name.c_str(), 0) == 0)
        TRY_VOID(copy(directory + "/" + name, kDepthMax));
    }
    return {};  // a directory that the host does not have is no fault
  }

 private:
  Result<void> copy(const std::string& path, int depth) {
    struct stat status{};
    const std::string place = root_ + "/" + path;
    if (is_never(std::filesystem::path(path).filename().string())) return {};
    if (lstat(place.c_str(), &status) != 0) return {};
    if (skeleton_.size() >= kEntriesMax || depth == 0) return {};
    if (S_ISLNK(status.st_mode)) return copy_link(path);
    if ((status.st_mode & S_IROTH) == 0) return {};
    if (S_ISREG(status.st_mode)) return copy_file(path);
    if (!S_ISDIR(status.st_mode) || (status.st_mode & S_IXOTH) == 0) return {};
    add_with_parents(skeleton_, path, {.kind = Kind::kDirectory});
    std::error_code error;
    for (std::filesystem::directory_iterator entry(place, error), end; !error && entry != end;
         entry.increment(error))
      TRY_VOID(copy(path + "/" + entry->path().filename().string(), depth - 1));
    return {};
  }

  Result<void> copy_link(const std::string& path) {
    char target[4096];
    const ssize_t size = readlink((root_ + "/" + path).c_str(), target, sizeof target);
    if (size <= 0) return {};
    const std::string text(target, static_cast<std::size_t>(size));
    if (!stays_inside(path, text)) return {};
    add_with_parents(skeleton_, path, {.kind = Kind::kLink, .mode = 0777, .content = text});
    return {};
  }

  Result<void> copy_file(const std::string& path) {
    auto file = TRY(read_public_file(root_ + "/" + path, kTotalBytesMax - total_));
    if (!file) return {};
    total_ += file->content.size();
    add_with_parents(skeleton_, path,
                     {.kind = Kind::kFile,
                      .mode = file->is_program ? mode_t{0755} : mode_t{0644},
                      .content = std::move(file->content)});
    return {};
  }

  Skeleton& skeleton_;
  std::string root_;
  std::size_t total_ = 0;
};

}  // namespace

Result<std::optional<PublicFile>> read_public_file(const std::string& path, std::size_t bytes_max) {
  const UniqueFd file(
      open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat status{};
  // Of what was opened: the name may mean another file by now.
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      (status.st_mode & S_IROTH) == 0)
    return std::nullopt;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > bytes_max) return std::nullopt;
  return PublicFile{.content = TRY(linux::read_all(file.get(), size + 1)),
                    .is_program = (status.st_mode & 0111) != 0};
}

Result<void> add_host_files(Skeleton& skeleton, const std::string& host_root) {
  HostCopier copier(skeleton, host_root);
  for (const char* pattern : kWanted) TRY_VOID(copier.copy_matching(pattern));
  return {};
}

}  // namespace pons::templates
