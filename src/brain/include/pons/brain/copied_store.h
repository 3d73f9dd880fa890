#pragma once

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/store/store.h"

namespace pons::brain {

// Makes what a brain's store has besides the rows that were copied to it: the words of memories.
Task<Result<void>> finish_copied_store(store::Store& store);

}  // namespace pons::brain
