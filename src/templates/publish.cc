#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/templates/layer_store.h"
#include "skeleton.h"

namespace pons::templates {
namespace {

constexpr std::size_t kSkeletonsKept = 4;  // of each kind

bool exists(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0;
}

// A link cannot be overwritten, but another one can be renamed over it.
Result<void> point_at(const std::string& layers, std::string_view kind, const std::string& name) {
  const std::string link = fmt::format("{}/{}", layers, kind);
  std::error_code unreadable;
  if (std::filesystem::read_symlink(link, unreadable) == name) return {};
  const std::string fresh = fmt::format("{}/.tmp-{}", layers, random_text(16));
  if (symlink(name.c_str(), fresh.c_str()) != 0) return os_error("link layer", fresh);
  if (rename(fresh.c_str(), link.c_str()) == 0) return {};
  const int error = errno;
  unlink(fresh.c_str());
  return os_error("link layer", link, error);
}

Result<void> remove_oldest(const std::string& layers, std::string_view kind,
                           const std::string& current) {
  std::vector<std::pair<std::filesystem::file_time_type, std::string>> skeletons;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(layers, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code gone;
    if (name.starts_with(fmt::format("{}-", kind)) && name != current)
      skeletons.emplace_back(entry->last_write_time(gone), entry->path().string());
  }
  if (error) return os_error("list layers", layers, error.value());
  std::ranges::sort(skeletons, std::greater{});
  for (std::size_t i = kSkeletonsKept - 1; i < skeletons.size(); ++i)
    TRY_VOID(remove_tree(skeletons[i].second));
  return {};
}

}  // namespace

Result<std::string> publish_skeleton(const std::string& state_dir, std::string_view kind,
                                     const Skeleton& skeleton) {
  const LayerStore store = TRY(LayerStore::open(state_dir));
  const std::string name = fmt::format("{}-{}", kind, digest_of(skeleton));
  const std::string place = store.path() + "/" + name;
  if (!exists(place)) {
    const StoreLease lease = TRY(store.lease());
    StagingDirectory staged = TRY(store.stage(lease));
    TRY_VOID(write_skeleton(skeleton, staged.get() + "/fs"));
    const auto tree = TRY(linux::open_file(staged.get(), O_RDONLY | O_DIRECTORY));
    if (fchmod(tree.get(), 0755) != 0 || syncfs(tree.get()) != 0)
      return os_error("write layer", place);
    if (rename(staged.get().c_str(), place.c_str()) == 0) [[maybe_unused]]
      const std::string published = staged.release();
    else if (errno != EEXIST && errno != ENOTEMPTY)
      return os_error("publish layer", place);
  }
  TRY_VOID(point_at(store.path(), kind, name));
  TRY_VOID(remove_oldest(store.path(), kind, name));
  return place + "/fs";
}

}  // namespace pons::templates
