#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/spawner/protocol.h"

namespace pons::sandbox {

using Layers = std::vector<spawner::OwnLayer>;  // topmost first

// Which layers one sandbox stands on, and which of them its checkpoints need. Only bookkeeping: the
// spawner is asked first, and what it did is noted here.
struct LayerView {
  struct Checkpoint {
    std::string name;
    Layers layers;
  };

  std::uint64_t sandbox = 0;
  std::uint32_t upper = 1;
  std::uint32_t next = 2;  // number of the next new layer
  Layers layers;           // below the upper
  Layers mounted;          // as the running view has them: older than `layers` after a merge
  std::vector<std::uint32_t> own;       // layers of this sandbox that exist, beside the upper
  std::vector<Checkpoint> checkpoints;  // oldest first

  // What the spawner was asked for, from before the question until what came of it is known.
  struct Switch {
    std::uint32_t upper = 0;
    Layers below;
    std::string checkpoint;  // the name of what stays below; empty: none
  };
  std::optional<Switch> asked;

  // What a view that freezes the upper has below its own, new one.
  Layers frozen() const;
  const Checkpoint* find(std::string_view name) const;

  // The spawner did what it was asked for.
  void switched();
  // This upper is mounted: then it did, or it did not.
  void settle(std::uint32_t mounted_upper);
  void forget(std::string_view name);

  // Own layers that neither view nor checkpoint needs, and no other sandbox by `is_used_outside`.
  using UsedOutside = std::function<bool(const spawner::OwnLayer&)>;
  std::vector<std::uint32_t> unneeded(const UsedOutside& is_used_outside) const;
  // The longest run of own layers, at least two, that no checkpoint parts and nobody else uses.
  Layers mergeable(const UsedOutside& is_used_outside) const;
  // The spawner made `run` into one layer.
  void merged(const Layers& run, std::uint32_t into);

  bool refers_to(const spawner::OwnLayer& layer) const;
};

}  // namespace pons::sandbox
