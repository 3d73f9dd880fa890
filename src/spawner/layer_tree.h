#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "privileges.h"

// Work on the files of layers. They were written by whoever was in the sandbox: any name, any
// depth, any number. No path is ever followed, every step is relative to an open directory, and the
// depth held open is bounded.

namespace pons::spawner {

// Deletes an entry and everything below it.
Result<void> remove_tree(int directory, const std::string& name);

// Makes in `to` (an empty directory of the same file system) what an overlay of `layers`, topmost
// first, shows over the layers `below` them, which must be all there are. Files are linked, not
// copied. Directories that were moved are put together from where they were. EOPNOTSUPP when some
// lie too deep.
Result<void> merge_layers(const std::vector<int>& layers, const std::vector<int>& below, int to,
                          Privileges privileges = Privileges::kHostRoot);

// Copies one layer out of a sandbox: owners are moved from the range of ids that begins at
// `from_id` to the one at `to_id`; whiteouts and opaque marks stay.
Result<void> copy_layer(int layer, int to, std::uint32_t from_id, std::uint32_t to_id,
                        Privileges privileges = Privileges::kHostRoot);

}  // namespace pons::spawner
