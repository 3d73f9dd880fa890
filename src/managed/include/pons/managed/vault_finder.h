#pragma once

#include <functional>
#include <string>

#include "pons/base/result.h"
#include "pons/base/task.h"

namespace pons::managed {

// Whether a session of the project may have the vault: kNotFound, or kConflict when it is archived.
using VaultFinder = std::function<Task<Result<void>>(std::string project, std::string vault)>;

}  // namespace pons::managed
