#pragma once

#include "pons/base/task.h"
#include "pons/http/exchange.h"
#include "pons/store/sqlite_store.h"

namespace pons::store {

// Where a copy lies until its name is removed, in the current folder: a role's own. Whoever opens a
// store there removes what a process has left that was killed while it made one.
inline constexpr const char* kBackupFile = "backup.db";

// A copy of the store as it is now.
Task<> answer_backup(SqliteStore& store, http::Exchange& exchange);

}  // namespace pons::store
