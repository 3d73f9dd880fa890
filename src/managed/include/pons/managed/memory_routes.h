#pragma once

#include <vector>

#include "pons/http/router.h"
#include "pons/managed/store_grant.h"
#include "pons/memory/memory_stores.h"

namespace pons::managed {

// /v1/memory_stores and all below it. `memories` outlives the routes. Without `find_grant` the
// tokens of workers open nothing here.
std::vector<http::Route> memory_routes(memory::MemoryStores& memories, GrantFinder find_grant = {});

}  // namespace pons::managed
