#pragma once

#include "pons/managed/fields.h"
#include "pons/managed/session_files.h"

namespace pons::managed {

// A `github_repository` resource, with defaults filled in. Its token is refused: it would come by
// the brain. A vault's variable does the same.
Result<Json> read_repository(const JsonPlace& place);

// Of a resource as it was read.
Repository repository_of(const Json& resource);

}  // namespace pons::managed
