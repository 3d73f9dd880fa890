#pragma once

#include <string>

#include "pons/base/result.h"

namespace pons::templates {

// Makes the layer that lies above every template: the directories that are mounted over in every
// sandbox, and the files below `source`, few and small, written by another role. Directories,
// regular files and links; no owner, no special bits. A source that is not there has no files.
Result<std::string> ensure_trust_layer(const std::string& state_dir, const std::string& source);

}  // namespace pons::templates
