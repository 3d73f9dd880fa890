#include "pons/templates/layer_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "pons/base/json.h"

namespace pons::templates {
namespace {

using linux::UniqueFd;

constexpr std::string_view kStagingPrefix = ".tmp-";
constexpr std::size_t kSourceBytesMax = 1024;

Result<void> ensure_directory(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return os_error("create directory", path);
  return {};
}

std::int64_t now_unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<void> write_info(const std::string& directory, const LayerInfo& info) {
  const Json json = {{"bytes", info.bytes},
                     {"files", info.files},
                     {"created_unix_ms", info.created_unix_ms},
                     {"source", info.source}};
  return linux::write_file_atomically(directory + "/layer.json", dump_json(json) + "\n", 0644);
}

// A layer is its tree; a description that is lost or damaged costs only what people read.
LayerInfo read_info(const std::string& directory, std::string digest) {
  LayerInfo info{.digest = std::move(digest)};
  const auto text = linux::read_file(directory + "/layer.json", 64 * 1024);
  if (!text) return info;
  const auto json = parse_json(*text);
  if (!json || !json->is_object()) return info;
  try {
    info.bytes = json->value("bytes", std::uint64_t{0});
    info.files = json->value("files", std::uint64_t{0});
    info.created_unix_ms = json->value("created_unix_ms", std::int64_t{0});
    info.source = json->value("source", "");
  } catch (const Json::exception&) {
    return LayerInfo{.digest = info.digest};
  }
  return info;
}

Result<UniqueFd> open_lock(const std::string& path) {
  return linux::open_file(path + "/.lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
}

// Out of sight in one step, so that a layer is whole or not there, also after a crash.
Result<void> remove_layer(const std::string& path, const std::string& digest) {
  const std::string doomed = fmt::format("{}/{}{}", path, kStagingPrefix, random_text(16));
  if (rename((path + "/" + digest).c_str(), doomed.c_str()) != 0)
    return os_error("remove layer", digest);
  return remove_tree(doomed);
}

// Root of a user namespace may not, whatever its capabilities there: it gets EPERM before the
// kernel looks whether there is such an attribute.
bool may_set_trusted(int fd) {
  return fremovexattr(fd, "trusted.overlay.none") == 0 || errno != EPERM;
}

// How many there were. The caller has locked out whoever makes one.
Result<std::size_t> remove_staged(const std::string& directory) {
  std::vector<std::string> leftovers;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kStagingPrefix))
      leftovers.push_back(entry->path().string());
  }
  if (error) return os_error("list layers", directory, error.value());
  for (const std::string& leftover : leftovers) TRY_VOID(remove_tree(leftover));
  return leftovers.size();
}

}  // namespace

bool is_digest(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

void StagingTraits::close(const std::string& path) noexcept {
  std::error_code ignored;  // the garbage collector finds what stays
  std::filesystem::remove_all(path, ignored);
}

Result<LayerStore> LayerStore::open(const std::string& state_dir) {
  const std::string path = state_dir + "/spawner/layers";
  TRY_VOID(ensure_directory(state_dir + "/spawner", 0700));
  TRY_VOID(ensure_directory(path, 0700));
  return LayerStore(path);
}

std::string LayerStore::tree_path(std::string_view digest) const {
  return fmt::format("{}/{}/fs", path_, digest);
}

Result<StoreLease> LayerStore::lease() const {
  UniqueFd lock = TRY(open_lock(path_));
  if (flock(lock.get(), LOCK_SH | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK)
    return make_error(ErrorCode::kConflict, "lock layers",
                      "layers are being deleted by `pons template gc`; try again in a moment");
  return os_error("lock layers", path_);
}

Result<StagingDirectory> LayerStore::stage(const StoreLease& lease) const {
  if (!lease) return make_error(ErrorCode::kInternal, "stage layer", "without a lease");
  std::string directory = fmt::format("{}/{}{}", path_, kStagingPrefix, random_text(16));
  if (mkdir(directory.c_str(), 0700) != 0) return os_error("stage layer", directory);
  StagingDirectory staged(directory);
  TRY_VOID(ensure_directory(directory + "/fs", 0755));
  // Whatever umask the operator has.
  if (chmod((directory + "/fs").c_str(), 0755) != 0) return os_error("stage layer", directory);
  return staged;
}

Result<LayerInfo> LayerStore::publish(StagingDirectory staged, const std::string& source,
                                      const TreeLimits& limits) const {
  const UniqueFd tree =
      TRY(linux::open_file(staged.get() + "/fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  const auto marks = may_set_trusted(tree.get()) ? OpaqueMarks::kPromote : OpaqueMarks::kRead;
  const TreeSummary summary = TRY(digest_tree(tree.get(), marks, limits));
  LayerInfo info{.digest = summary.digest,
                 .bytes = summary.bytes,
                 .files = summary.files,
                 .created_unix_ms = now_unix_ms(),
                 .source = source.substr(0, kSourceBytesMax)};
  const std::string place = path_ + "/" + info.digest;
  if (auto earlier = TRY(find(info.digest))) return std::move(*earlier);
  TRY_VOID(write_info(staged.get(), info));
  // The name promises the content: it must be on disk before the name is.
  if (syncfs(tree.get()) != 0) return os_error("sync layer", place);
  if (chmod(staged.get().c_str(), 0755) != 0) return os_error("publish layer", place);
  if (rename(staged.get().c_str(), place.c_str()) != 0) {
    const int error = errno;
    // Somebody else published the same content meanwhile.
    if (error == EEXIST || error == ENOTEMPTY) return read_info(place, info.digest);
    return os_error("publish layer", place, error);
  }
  [[maybe_unused]] const std::string published = staged.release();
  const UniqueFd directory = TRY(linux::open_file(path_, O_RDONLY | O_DIRECTORY));
  if (fsync(directory.get()) != 0) return os_error("publish layer", place);
  return info;
}

Result<std::vector<LayerInfo>> LayerStore::list() const {
  std::vector<LayerInfo> layers;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_digest(name)) layers.push_back(read_info(entry->path().string(), name));
  }
  if (error) return os_error("list layers", path_, error.value());
  std::ranges::sort(layers, {}, &LayerInfo::digest);
  return layers;
}

Result<std::optional<LayerInfo>> LayerStore::find(std::string_view digest) const {
  if (!is_digest(digest))
    return make_error(ErrorCode::kInvalid, "find layer", "a digest has 64 hex digits");
  const std::string place = fmt::format("{}/{}", path_, digest);
  struct stat status{};
  if (lstat((place + "/fs").c_str(), &status) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return os_error("find layer", place);
  }
  return read_info(place, std::string(digest));
}

Result<Collected> LayerStore::collect(const std::set<std::string>& needed,
                                      std::chrono::milliseconds spared_age) const {
  const UniqueFd lock = TRY(open_lock(path_));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return os_error("lock layers", path_);
    return make_error(ErrorCode::kConflict, "lock layers",
                      "a template is being made; try again when that is done");
  }
  Collected collected;
  for (const LayerInfo& layer : TRY(list())) {
    if (needed.contains(layer.digest)) continue;
    if (spared_age.count() > 0 && layer.created_unix_ms > now_unix_ms() - spared_age.count())
      continue;
    TRY_VOID(remove_layer(path_, layer.digest));
    collected.layers.push_back(layer.digest);
    collected.bytes += layer.bytes;
  }
  collected.leftovers = TRY(remove_staged(path_));
  return collected;
}

Result<void> LayerStore::remove_leftovers() const {
  const UniqueFd lock = TRY(open_lock(path_));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? Result<void>() : os_error("lock layers", path_);
  (void)TRY(remove_staged(path_));
  return {};
}

}  // namespace pons::templates
