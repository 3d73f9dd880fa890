#pragma once

#include <string>
#include <vector>

#include "pons/session/event.h"

namespace pons::session {

// A place where today's program would have gone on differently than the log did.
struct Divergence {
  Seq seq = 0;
  std::string expected;  // type and body; empty: nothing was to be decided
  std::string found;     // empty: the log ends, and something is to be decided
};

// Folds the log anew and compares each decision in it with the one that would be taken now. Stops
// after `max` differences.
std::vector<Divergence> replay(const std::vector<StoredEvent>& events, std::size_t max = 100);

}  // namespace pons::session
