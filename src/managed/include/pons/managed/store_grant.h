#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "pons/base/task.h"
#include "pons/managed/reply.h"

namespace pons::managed {

// What a session may do with a memory store: whoever works for it may do no more.
enum class StoreGrant : std::uint8_t { kNone, kRead, kWrite };
using GrantFinder = std::function<Task<Reply<StoreGrant>>(std::string project, std::string session,
                                                          std::string store)>;

}  // namespace pons::managed
