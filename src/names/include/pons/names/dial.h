#pragma once

#include <cstdint>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"
#include "pons/names/ip_address.h"

namespace pons::names {

// The families take turns, so that a broken one costs one attempt; IPv6 is left out where the
// kernel knows no way to it and there is another.
std::vector<IpAddress> in_dialling_order(const std::vector<IpAddress>& addresses,
                                         std::uint16_t port);

// A connected TCP socket that sends at once what it is given.
Task<Result<linux::UniqueFd>> dial(linux::Loop& loop, IpAddress address, std::uint16_t port,
                                   TimePoint deadline);

}  // namespace pons::names
