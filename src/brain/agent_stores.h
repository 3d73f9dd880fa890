#pragma once

#include <string>
#include <vector>

#include "pons/memory/memory_stores.h"
#include "pons/session/event.h"

namespace pons::brain {

// The stores that an agent of the configuration has by name, in the project that it works for. One
// that is not there is made.
Task<Result<void>> find_memory(memory::MemoryStores* stores, const std::string& project,
                               std::vector<session::MemoryGrant>& grants);

}  // namespace pons::brain
