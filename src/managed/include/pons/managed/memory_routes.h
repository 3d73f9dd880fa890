#pragma once

#include <vector>

#include "pons/http/router.h"
#include "pons/memory/memory_stores.h"

namespace pons::managed {

// /v1/memory_stores and all below it. `memories` outlives the routes.
std::vector<http::Route> memory_routes(memory::MemoryStores& memories);

}  // namespace pons::managed
