#pragma once

#include <cstdint>
#include <span>

#include "database.h"
#include "migrations.h"

namespace pons::store {

// How many of `known` have made the tables of this file; 0 for one without any.
Result<std::int64_t> count_applied(Database& database, std::span<const Migration> known);

// Applies those that are missing, each in a transaction of its own.
Result<void> migrate(Database& database, std::span<const Migration> known);

}  // namespace pons::store
