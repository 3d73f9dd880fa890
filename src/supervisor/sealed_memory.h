#pragma once

#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/linux/fd.h"

namespace pons::supervisor {

// A memory file with a secret in it that nobody can change any more: how it reaches a role that
// opens no files.
Result<linux::UniqueFd> seal_in_memory(const char* name, const Secret& secret);

}  // namespace pons::supervisor
