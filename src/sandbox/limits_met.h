#pragma once

#include <string>

#include "pons/spawner/protocol.h"

namespace pons::sandbox {

// What the sandbox's control groups count, and only ever more of.
struct LimitCounts {
  std::uint64_t oom_kills = 0;
  std::uint64_t pids_refused = 0;

  static LimitCounts of(const spawner::Values& usage);
  void raise_to(const LimitCounts& later);
};

// Which limits stood in the way of a job that failed, with figures, as words for a person: those
// the sandbox is at, and those that were met since `before`. Empty: none.
std::string limits_met(const spawner::Values& usage, const spawner::SandboxLimits& limits,
                       const LimitCounts& before);

}  // namespace pons::sandbox
