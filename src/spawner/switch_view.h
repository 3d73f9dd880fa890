#pragma once

#include "pons/linux/mount.h"
#include "view.h"

namespace pons::spawner {

enum class Seal : std::uint8_t { kRequired, kIfPossible };
// kEveryMount is for sandboxes that can make mount namespaces of their own, and so further mounts
// of the same view. It also refuses while deleted files are open.
enum class SealScope : std::uint8_t { kOneMount, kEveryMount };

// Replaces the root file system of a running sandbox by `view`, under the feet of its processes,
// without restarting any of them. The old view is made read only first: kRequired fails with EBUSY,
// and changes nothing, when somebody has a file open for writing. Processes whose working directory
// is below the old root stay in the old view, where nothing can be written any more.
Outcome<> switch_view(int mount_namespace, linux::DetachedMount view, Seal seal,
                      SealScope scope = SealScope::kOneMount);

// The number of the upper in the view that is mounted there now, whoever mounted it.
Result<std::uint32_t> find_mounted_upper(int mount_namespace);

}  // namespace pons::spawner
