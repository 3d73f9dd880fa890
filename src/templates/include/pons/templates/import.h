#pragma once

#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/sandbox/provider.h"
#include "pons/templates/layer_store.h"
#include "pons/templates/progress.h"

namespace pons::templates {

inline constexpr std::size_t kLayersMax = 32;  // what a sandbox can stand on

struct ImportOptions {
  std::string name;
  std::string path;       // directory with an OCI layout, or a tar of one, or of `docker save`
  std::string reference;  // which image, when there are several: its tag
  TreeLimits limits;      // of all layers together
  ProgressSink progress;
};

// True for 1 to 64 characters of [a-z0-9._-] that begin with a letter or digit.
bool is_template_name(std::string_view text);

// Reads the image for this machine's architecture and makes one layer of each of its layers.
// Digests are verified before anything is unpacked; everything in the image is hostile.
Result<sandbox::TemplateInfo> import_image(const LayerStore& store, const StoreLease& lease,
                                           const ImportOptions& options);

}  // namespace pons::templates
