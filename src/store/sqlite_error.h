#pragma once

#include <string_view>

#include "pons/base/result.h"

// NOLINTNEXTLINE(readability-identifier-naming): SQLite's
struct sqlite3;

namespace pons::store {

// What the last call on the connection met, in our words. `code` is its extended result.
Error error_of_sqlite(sqlite3* connection, int code, const char* step, std::string_view file);

// True for what says that the file, or the disk below it, can no longer be relied on.
bool means_damage(int code);

}  // namespace pons::store
