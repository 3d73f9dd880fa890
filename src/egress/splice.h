#pragma once

#include <cstdint>
#include <memory>

#include "pons/base/task.h"
#include "pons/http/transport.h"
#include "pons/linux/loop.h"

namespace pons::egress {

struct SplicedBytes {
  std::uint64_t out = 0;
  std::uint64_t in = 0;
};

// Carries bytes both ways, as they are, until both sides have ended or one has failed. Either side
// may end its own direction first. Counts while it runs.
Task<> splice(linux::Loop& loop, http::Transport& inside, http::Transport& outside,
              SplicedBytes& bytes, Duration idle_max);

}  // namespace pons::egress
