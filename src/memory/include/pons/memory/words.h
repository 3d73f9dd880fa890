#pragma once

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/store/store.h"

namespace pons::memory {

// Makes what searches look through out of all memories of a store that was filled by a copy and has
// none of it yet.
Task<Result<void>> make_words(store::Store& store);

}  // namespace pons::memory
