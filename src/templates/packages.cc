#include "pons/templates/packages.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <ranges>

#include <fmt/format.h>

#include "extract.h"
#include "npm.h"
#include "pons/base/text.h"

namespace pons::templates {
namespace {

namespace fs = std::filesystem;

// The installation while it is being made.
struct Building {
  const LayerStore& store;
  const StoreLease& lease;
  const PackageOptions& options;
  std::map<std::string, std::string> archives;
  StagingDirectory staged;
  TreeLimits left;
};

Result<std::string> only_directory_in(const std::string& path, const std::string& package) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().string());
  struct stat status{};
  if (error || names.size() != 1 || lstat(names[0].c_str(), &status) != 0 ||
      !S_ISDIR(status.st_mode))
    return make_error(ErrorCode::kInvalid, "unpack package",
                      package + ": its archive is no package of npm");
  return names[0];
}

// A package is known by its licence, whatever is left out of it.
bool is_kept(const std::string& path, const std::vector<std::string>& keep) {
  const auto begins = [&](std::string_view prefix) { return path.starts_with(prefix); };
  const auto is_named = [&](std::string_view name) {
    return name.ends_with('/') ? begins(name) : path == name;
  };
  if (keep.empty() || std::ranges::any_of(keep, is_named)) return true;
  if (path.find('/') != std::string::npos) return false;
  return path == "package.json" ||
         std::ranges::any_of(std::array{"LICENSE", "LICENCE", "NOTICE"}, begins);
}

Result<void> drop_attributes(const std::string& path) {
  std::array<char, 4096> names{};
  const ssize_t size = llistxattr(path.c_str(), names.data(), names.size());
  if (size < 0 && errno != ENOTSUP) return os_error("unpack package", path);
  for (const std::string_view name :
       split({names.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))}, '\0'))
    // Labels of the host's own security module are not the archive's.
    if ((name.starts_with("user.") || name.starts_with("trusted.") ||
         name == "security.capability") &&
        lremovexattr(path.c_str(), std::string(name).c_str()) != 0)
      return os_error("unpack package", path);
  return {};
}

// Whatever the archive said: root's, and to be changed by nobody else.
Result<void> make_plain(const std::string& path, mode_t mode) {
  TRY_VOID(drop_attributes(path));
  if (geteuid() == 0 && lchown(path.c_str(), 0, 0) != 0) return os_error("set owner", path);
  if (chmod(path.c_str(), mode) != 0) return os_error("set mode", path);
  return {};
}

// Nobody else changes the tree meanwhile. Links and whatever else is no file do not stay: npm makes
// none of an archive, either.
Result<void> tidy(const std::string& root, const std::vector<std::string>& keep) {
  std::vector<std::string> doomed;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    struct stat status{};
    if (lstat(path.c_str(), &status) != 0) return os_error("unpack package", path);
    if (S_ISDIR(status.st_mode))
      TRY_VOID(make_plain(path, 0755));
    else if (S_ISREG(status.st_mode) && is_kept(path.substr(root.size() + 1), keep))
      TRY_VOID(make_plain(path, (status.st_mode & 0111) != 0 ? 0755 : 0644));
    else
      doomed.push_back(path);
  }
  if (error) return os_error("unpack package", root, error.value());
  for (const std::string& path : doomed)
    if (unlink(path.c_str()) != 0) return os_error("unpack package", path);
  return make_plain(root, 0755);
}

// Those that hold nothing any more, from the innermost on.
Result<void> drop_empty_directories(const std::string& root) {
  std::vector<std::string> directories;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->symlink_status().type() == fs::file_type::directory)
      directories.push_back(entry->path().string());
  if (error) return os_error("unpack package", root, error.value());
  for (const std::string& path : std::views::reverse(directories))
    if (rmdir(path.c_str()) != 0 && errno != ENOTEMPTY) return os_error("unpack package", path);
  return {};
}

// Whatever umask the operator has.
Result<void> make_directories(const std::string& root, const std::string& inner) {
  std::string path = root;
  for (const std::string_view part : split(inner, '/')) {
    path += fmt::format("/{}", part);
    if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return os_error("unpack package", path);
    if (chmod(path.c_str(), 0755) != 0) return os_error("unpack package", path);
  }
  return {};
}

Result<void> unpack(Building& building, const NpmPackage& package) {
  const std::string& archive = building.archives.at(TRY(read_integrity(package.integrity)));
  const auto input = TRY(linux::open_file(archive, O_RDONLY | O_NOFOLLOW));
  const StagingDirectory own = TRY(building.store.stage(building.lease));
  const Extracted extracted = TRY(extract_tar(input.get(), own.get() + "/fs", building.left, {}));
  building.left.bytes -= std::min(building.left.bytes, extracted.counts.bytes);
  building.left.files -= std::min(building.left.files, extracted.counts.files);
  const std::string tree = TRY(only_directory_in(own.get() + "/fs", package.name));
  TRY_VOID(tidy(tree, package.keep));
  if (!package.keep.empty()) TRY_VOID(drop_empty_directories(tree));
  const std::string inner = fmt::format("{}/{}", building.options.directory, package.place);
  const std::string place = fmt::format("{}/fs/{}", building.staged.get(), inner);
  TRY_VOID(make_directories(building.staged.get() + "/fs", inner.substr(0, inner.rfind('/'))));
  // What another package brought there itself.
  TRY_VOID(remove_tree(place));
  if (rename(tree.c_str(), place.c_str()) != 0) return os_error("unpack package", place);
  return {};
}

Result<void> check_programs(const std::string& root, const std::vector<std::string>& programs) {
  for (const std::string& name : programs) {
    const std::string path = root + "/" + name;
    struct stat status{};
    if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
      return make_error(ErrorCode::kInvalid, "check packages",
                        fmt::format("the packages have no {}", name));
    if (name == programs.front()) TRY_VOID(make_plain(path, 0755));
  }
  return {};
}

}  // namespace

Result<LayerInfo> install_packages(const LayerStore& store, const StoreLease& lease,
                                   const PackageOptions& options) {
  TRY_VOID(check_packages(options));
  const StagingDirectory fetched = TRY(store.stage(lease));
  Building building{.store = store,
                    .lease = lease,
                    .options = options,
                    .archives = TRY(fetch_archives(options, fetched.get() + "/fetched")),
                    .staged = TRY(store.stage(lease)),
                    .left = options.limits};
  // A package before those that lie in it.
  std::vector<NpmPackage> ordered = options.packages;
  std::ranges::sort(ordered, {}, &NpmPackage::place);
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (options.progress) options.progress({.what = "unpack", .done = i, .total = ordered.size()});
    TRY_VOID(unpack(building, ordered[i]));
  }
  TRY_VOID(check_programs(building.staged.get() + "/fs/" + options.directory, options.programs));
  if (options.progress) options.progress({.what = "digest"});
  return store.publish(std::move(building.staged), options.source, options.limits);
}

}  // namespace pons::templates
