#pragma once

#include <optional>
#include <vector>

#include "pons/session/state.h"

namespace pons::session {

// Reads the log of an agent that does a call, and says what whoever follows the caller's session
// has to know of it: how far it is, and which of its calls wait for them.
class ThreadWatch {
 public:
  // `known`: what the caller's log has of it already.
  ThreadWatch(Seq call, const ThreadChanged& known) : last_(known) { last_.call = call; }

  // The next events of the log, from the first on. Nothing when they change nothing for others.
  std::optional<ThreadChanged> take(const std::vector<StoredEvent>& events);

 private:
  std::string posted(const StoredEvent& stored) const;

  State agent_;
  ThreadChanged last_;
};

}  // namespace pons::session
