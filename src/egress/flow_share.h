#pragma once

#include <algorithm>
#include <cstdint>

namespace pons::egress {

// Connections of all sandboxes that may be open at once: each holds two descriptors.
inline constexpr std::uint64_t kFlowsMax = 8'000;

// How many of them one sandbox may have. It is never more than what is free, so that n sandboxes
// that take all they can get leave an (n+1)th part to those that come later.
constexpr std::uint64_t flow_share(std::uint64_t flows_open, std::uint64_t policy_limit) {
  return std::min(policy_limit, kFlowsMax - std::min(flows_open, kFlowsMax));
}

}  // namespace pons::egress
