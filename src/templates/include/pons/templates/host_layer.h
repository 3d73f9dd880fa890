#pragma once

#include <string>

#include "pons/base/result.h"

namespace pons::templates {

// Makes the skeleton of the template `host`: everything of a root directory but the programs, which
// the sandbox sees by a read-only mount of the host's /usr. Of the host's /etc it takes a short
// list of files without secrets, and of those only what every user may read.
//
// Returns the path of the tree. When nothing has changed since the last call, that is all it does.
// The tree of an earlier call stays for the sandboxes that stand on it; the oldest go.
// `host_root` is "/" except in tests.
Result<std::string> ensure_host_layer(const std::string& state_dir,
                                      const std::string& host_root = "/");

}  // namespace pons::templates
