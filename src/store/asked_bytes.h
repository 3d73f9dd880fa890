#pragma once

#include "pons/base/result.h"
#include "pons/store/limits.h"
#include "pons/store/store.h"

namespace pons::store {

// How much is asked for; an error when it is more than the limits allow, or no text.
Result<std::size_t> asked_bytes(const Statement& statement, const StoreLimits& limits);
Result<std::size_t> asked_bytes(const Transaction& transaction, const StoreLimits& limits);

}  // namespace pons::store
