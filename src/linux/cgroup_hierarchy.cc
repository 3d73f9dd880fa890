#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/linux/cgroup.h"

namespace pons::linux {
namespace {

constexpr std::array<std::string_view, 5> kControllersV1 = {"memory", "pids", "cpu", "cpuacct",
                                                            "freezer"};
constexpr std::array<std::string_view, 4> kControllersV2 = {"memory", "pids", "cpu", "io"};
constexpr std::string_view kBlockV1 = "blkio";
constexpr std::string_view kOwnGroup = "pons-supervisor";

// One line of /proc/self/mountinfo about a control group filesystem.
struct MountLine {
  std::string_view root;  // which part of the hierarchy is mounted
  std::string_view directory;
  std::string_view type;
  std::string_view options;
};

std::optional<MountLine> parse_mount_line(std::string_view line) {
  const auto separator = line.find(" - ");
  if (separator == std::string_view::npos) return std::nullopt;
  const auto front = split(line.substr(0, separator), ' ');
  const auto back = split(line.substr(separator + 3), ' ');
  if (front.size() < 6 || back.size() < 3 || !back[0].starts_with("cgroup")) return std::nullopt;
  return MountLine{front[3], front[4], back[0], back[2]};
}

// Controller to this process's group; "" is version 2. Lines are "4:cpu,cpuacct:/path".
std::map<std::string, std::string, std::less<>> parse_own_groups(std::string_view text) {
  std::map<std::string, std::string, std::less<>> groups;
  for (const std::string_view line : split(text, '\n')) {
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    for (const std::string_view controller : split(line.substr(first + 1, second - first - 1), ','))
      groups.emplace(controller, line.substr(second + 1));
  }
  return groups;
}

// Where this process's group is visible. In a container the mount may show only a part of the
// hierarchy, and a group outside of that part has no path: then the mount itself is the place.
std::string own_directory(const MountLine& mount, std::string_view group) {
  if (mount.root != "/" &&
      (group == mount.root || group.starts_with(fmt::format("{}/", mount.root))))
    group.remove_prefix(mount.root.size());
  std::string directory = fmt::format("{}{}", mount.directory, group);
  while (directory.ends_with('/')) directory.pop_back();
  std::error_code error;
  const bool usable = !group.starts_with("/..") && std::filesystem::is_directory(directory, error);
  return usable ? directory : std::string(mount.directory);
}

std::vector<std::string> controllers_of_v2(const std::string& directory) {
  std::vector<std::string> controllers;
  const auto text = read_file(directory + "/cgroup.controllers");
  if (!text) return controllers;
  for (const std::string_view name : split(trim(*text), ' ')) {
    if (!name.empty()) controllers.emplace_back(name);
  }
  return controllers;
}

std::vector<std::string> block_directories_of(const MountLine& mount, std::string_view group) {
  std::vector<std::string> directories{std::string(mount.directory)};
  if (std::string own = own_directory(mount, group); own != directories.front())
    directories.push_back(std::move(own));
  return directories;
}

Result<void> require_name(const std::string& name) {
  if (is_id_text(name)) return {};
  return make_error(ErrorCode::kInvalid, "name control group",
                    "a name is 1 to 128 letters, digits, '-' and '_'");
}

}  // namespace

Result<CgroupHierarchy> CgroupHierarchy::detect() {
  const std::string mountinfo = TRY(read_file("/proc/self/mountinfo", 8 << 20));
  const std::string own_groups = TRY(read_file("/proc/self/cgroup"));
  return detect_from(mountinfo, own_groups);
}

Result<CgroupHierarchy> CgroupHierarchy::detect_from(std::string_view mountinfo,
                                                     std::string_view own_groups_text) {
  const auto own_groups = parse_own_groups(own_groups_text);
  std::vector<CgroupMount> v1;
  std::optional<CgroupMount> v2;
  std::vector<std::string> block;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto mount = parse_mount_line(line);
    if (!mount) continue;
    if (mount->type == "cgroup2") {
      const auto group = own_groups.find("");
      if (group == own_groups.end() || v2) continue;
      std::string directory = own_directory(*mount, group->second);
      if (directory.ends_with(fmt::format("/{}", kOwnGroup)))
        directory.resize(directory.size() - kOwnGroup.size() - 1);
      v2 = CgroupMount{directory, controllers_of_v2(directory)};
      continue;
    }
    CgroupMount found;
    for (const std::string_view option : split(mount->options, ',')) {
      const bool wanted = std::ranges::find(kControllersV1, option) != kControllersV1.end();
      const auto group = own_groups.find(option);
      if (option == kBlockV1 && group != own_groups.end())
        block = block_directories_of(*mount, group->second);
      if (!wanted || group == own_groups.end()) continue;
      found.directory = own_directory(*mount, group->second);
      found.controllers.emplace_back(option);
    }
    // One that was mounted over another at the same place is listed twice.
    const bool known = std::ranges::find(v1, found.directory, &CgroupMount::directory) != v1.end();
    if (!found.controllers.empty() && !known) v1.push_back(std::move(found));
  }
  // Both are mounted on hybrid hosts, where the controllers belong to version 1.
  if (!v1.empty()) {
    CgroupHierarchy found(1, std::move(v1));
    found.block_directories_ = std::move(block);
    return found;
  }
  if (v2) return CgroupHierarchy(2, {std::move(*v2)});
  return make_error(ErrorCode::kUnsupported, "find control groups", "no cgroup filesystem mounted");
}

CgroupHierarchy CgroupHierarchy::from_mounts(int version, std::vector<CgroupMount> mounts) {
  return CgroupHierarchy(version, std::move(mounts));
}

std::vector<std::string> CgroupHierarchy::controllers() const {
  std::vector<std::string> all;
  for (const CgroupMount& mount : mounts_)
    all.insert(all.end(), mount.controllers.begin(), mount.controllers.end());
  return all;
}

std::vector<std::string> CgroupHierarchy::directories() const {
  std::vector<std::string> all;
  for (const CgroupMount& mount : mounts_) all.push_back(mount.directory);
  return all;
}

Result<void> CgroupHierarchy::enable_controllers() const {
  const std::string path = mounts_.front().directory + "/cgroup.subtree_control";
  const std::string enabled = TRY(read_file(path));
  const auto names = split(trim(enabled), ' ');
  for (const std::string_view controller : kControllersV2) {
    const auto& available = mounts_.front().controllers;
    if (std::ranges::find(available, controller) == available.end() ||
        std::ranges::find(names, controller) != names.end())
      continue;
    const UniqueFd fd = TRY(open_file(path, O_WRONLY));
    if (auto written = write_all(fd.get(), fmt::format("+{}", controller)); !written)
      return os_error("enable controller", fmt::format("{} in {}", controller, path),
                      written.error().os_error);
  }
  return {};
}

Result<void> CgroupHierarchy::delegate() {
  if (version_ == 1) return {};
  const std::string own = fmt::format("{}/{}", mounts_.front().directory, kOwnGroup);
  if (mkdir(own.c_str(), 0755) != 0 && errno != EEXIST)
    return os_error("create control group", own);
  const UniqueFd procs = TRY(open_file(own + "/cgroup.procs", O_WRONLY));
  TRY_VOID(write_all(procs.get(), std::to_string(getpid())));
  return enable_controllers();
}

Result<Cgroup> CgroupHierarchy::create(const std::string& name, const CgroupLimits& limits) const {
  TRY_VOID(require_name(name));
  // The limits below tell precisely what is missing when this fails.
  if (version_ == 2) (void)enable_controllers();
  Cgroup group(version_, name);
  for (const CgroupMount& mount : mounts_) {
    const std::string path = fmt::format("{}/{}", mount.directory, name);
    if (mkdir(path.c_str(), 0755) != 0) return os_error("create control group", path);
    group.directories_.push_back({path, UniqueFd(), mount.controllers});
    group.directories_.back().fd = TRY(open_file(path, O_RDONLY | O_DIRECTORY));
  }
  TRY_VOID(group.set_limits(limits));
  return group;
}

Result<Cgroup> CgroupHierarchy::adopt(const std::string& name) const {
  TRY_VOID(require_name(name));
  Cgroup group(version_, name);
  for (const CgroupMount& mount : mounts_) {
    std::string path = fmt::format("{}/{}", mount.directory, name);
    auto fd = open_file(path, O_RDONLY | O_DIRECTORY);
    // A run that was killed while creating or removing leaves only some of them.
    if (!fd && fd.error().code == ErrorCode::kNotFound) continue;
    group.directories_.push_back({std::move(path), TRY(std::move(fd)), mount.controllers});
  }
  if (group.directories_.empty())
    return make_error(ErrorCode::kNotFound, "adopt control group", name);
  return group;
}

Result<std::vector<std::string>> CgroupHierarchy::find_names(const std::string& prefix) const {
  std::vector<std::string> names;
  for (const CgroupMount& mount : mounts_) {
    std::error_code error;
    auto entry = std::filesystem::directory_iterator(mount.directory, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      std::error_code gone;
      const std::string name = entry->path().filename();
      if (name.starts_with(prefix) && name != kOwnGroup && entry->is_directory(gone))
        names.push_back(name);
    }
    if (error) return os_error("list control groups", mount.directory, error.value());
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace pons::linux
