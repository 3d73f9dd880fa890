#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/fd.h"
#include "pons/templates/tree.h"

// The layers of templates, by content: STATE_DIR/spawner/layers/DIGEST/fs is a tree in overlay
// format, DIGEST/layer.json says where it came from. Whatever has a digest as its name is complete
// and never changes; what is being made is called .tmp-RANDOM.

namespace pons::templates {

struct LayerInfo {
  std::string digest;
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
  std::int64_t created_unix_ms = 0;
  std::string source;
};

bool is_digest(std::string_view text);  // 64 lower-case hex digits

// A directory that is deleted with its owner, until it is published.
struct StagingTraits {
  using Value = std::string;
  static std::string empty() { return {}; }
  static void close(const std::string& path) noexcept;
};
using StagingDirectory = UniqueHandle<StagingTraits>;

// Keeps the garbage collector away while it lives: hold it from the first layer until the template
// that names the layers is known to the warden.
using StoreLease = linux::UniqueFd;

struct Collected {
  std::vector<std::string> layers;  // digests
  std::uint64_t bytes = 0;
  std::size_t leftovers = 0;  // of builds that were killed
};

class LayerStore {
 public:
  // Creates the directory when it is missing.
  static Result<LayerStore> open(const std::string& state_dir);

  Result<StoreLease> lease() const;
  // A new directory DIR with an empty DIR/fs, on the file system of the store.
  Result<StagingDirectory> stage(const StoreLease& lease) const;
  // Gives the staged tree its name. The same content twice is one layer.
  Result<LayerInfo> publish(StagingDirectory staged, const std::string& source,
                            const TreeLimits& limits = {}) const;

  Result<std::vector<LayerInfo>> list() const;
  Result<std::optional<LayerInfo>> find(std::string_view digest) const;
  // Deletes every layer that is not in `needed`, and leftovers. kConflict while somebody has a
  // lease. A layer younger than `spared_age` stays: a snapshot's layers are there before its
  // template is.
  Result<Collected> collect(const std::set<std::string>& needed,
                            std::chrono::milliseconds spared_age = {}) const;

  // What killed builds left. Nothing is done while somebody has a lease.
  Result<void> remove_leftovers() const;

  const std::string& path() const { return path_; }
  std::string tree_path(std::string_view digest) const;

 private:
  explicit LayerStore(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace pons::templates
