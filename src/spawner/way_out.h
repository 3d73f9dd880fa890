#pragma once

#include <cstdint>

#include "pons/base/result.h"
#include "pons/linux/fd.h"
#include "pons/linux/nftables.h"

namespace pons::spawner {

// Where a sandbox finds its way out: the proxy for programs that want one, and names. Every other
// TCP connection and every question for a name arrives there too.
inline constexpr std::uint16_t kProxyPort = 3128;
inline constexpr std::uint16_t kNamesPort = 53;

// The only two sockets through which anything leaves a sandbox's network namespace. Whoever holds
// them is its whole outside.
struct WayOut {
  linux::UniqueFd listener;  // TCP, both families
  linux::UniqueFd names;     // UDP, both families
  linux::Nftables rules;     // kept: closing it takes milliseconds
};

// In the network namespace of the calling thread, whose loopback is up. Fails when a process inside
// has taken one of the ports, and changes nothing then.
Result<WayOut> open_way_out();

}  // namespace pons::spawner
