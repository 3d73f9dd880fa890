#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/templates/layer_store.h"
#include "pons/templates/progress.h"

namespace pons::templates {

struct NpmPackage {
  std::string name;
  std::string version;      // one, not a range
  std::string integrity;    // "sha512-…" of its archive; nothing else is taken
  std::string place;        // below the directory of them all
  std::uint64_t bytes = 0;  // of its archive, for the bar; 0: not known
  // Of its files these, or, with a slash at the end, all below; and its licence and package.json.
  // Empty: all.
  std::vector<std::string> keep;
};

struct PackageOptions {
  std::string directory;  // below the root of the layer, without a slash before it
  std::vector<NpmPackage> packages;
  // Below the directory: files without which the rest is no use. The first can be run afterwards.
  std::vector<std::string> programs;
  std::string source;  // of the layer, for people
  TreeLimits limits;   // of all packages together
  ProgressSink progress;
};

// One layer with these packages and nothing else. The machine's own npm fetches them, with its
// registry, proxy and certificates, and is believed nothing: an archive is taken when its digest is
// the one that was asked for, unpacked by a process that reaches one directory, and nothing of it
// is run. Of its files those that are regular stay, owned by root, writable by nobody else.
Result<LayerInfo> install_packages(const LayerStore& store, const StoreLease& lease,
                                   const PackageOptions& options);

}  // namespace pons::templates
