#include <filesystem>

#include "apt_sources.h"
#include "skeleton.h"

namespace pons::templates {
namespace {

using Kind = SkeletonEntry::Kind;

constexpr std::size_t kSourcesBytesMax = 1 << 20;
constexpr std::size_t kStatusBytesMax = 16 << 20;
constexpr std::size_t kFilesMax = 256;

void add_file(Skeleton& skeleton, const std::string& path, std::string content) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1))
    skeleton.try_emplace(path.substr(0, slash), SkeletonEntry{.kind = Kind::kDirectory});
  skeleton[path] = {.kind = Kind::kFile, .mode = 0644, .content = std::move(content)};
}

Result<void> add_sources(Skeleton& skeleton, const std::string& host_root,
                         const std::string& path) {
  const auto file = TRY(read_public_file(host_root + "/" + path, kSourcesBytesMax));
  if (!file) return {};
  add_file(skeleton, path, without_credentials(file->content));
  return {};
}

}  // namespace

Result<void> add_host_packages(Skeleton& skeleton, const std::string& host_root) {
  const auto status = TRY(read_public_file(host_root + "/var/lib/dpkg/status", kStatusBytesMax));
  if (!status) return {};  // the host's packages are not apt's
  add_file(skeleton, "var/lib/dpkg/status", status->content);
  for (const char* path : {"etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d",
                           "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"})
    skeleton.try_emplace(path, SkeletonEntry{.kind = Kind::kDirectory});
  skeleton.try_emplace("etc/apt", SkeletonEntry{.kind = Kind::kDirectory});
  TRY_VOID(add_sources(skeleton, host_root, "etc/apt/sources.list"));
  std::error_code error;
  std::size_t files = 0;
  for (std::filesystem::directory_iterator entry(host_root + "/etc/apt/sources.list.d", error), end;
       !error && entry != end && files < kFilesMax; entry.increment(error), ++files) {
    const auto& path = entry->path();
    if (path.extension() == ".list" || path.extension() == ".sources")
      TRY_VOID(
          add_sources(skeleton, host_root, "etc/apt/sources.list.d/" + path.filename().string()));
  }
  return {};
}

}  // namespace pons::templates
