#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "database.h"
#include "pons/base/result.h"

namespace pons::store {

// One file of migrations/: never changed once it was released, because files carry its digest.
struct Migration {
  std::int64_t number;
  std::string_view name;
  std::string_view sql;
};

std::span<const Migration> migrations();

// How many of `known` have made the tables of this file, in order from the first. An error when one
// of them was another text, or there is one that is not known.
Result<std::int64_t> count_applied(Database& database, std::span<const Migration> known);

// Applies those that are missing, each in a transaction of its own.
Result<void> migrate(Database& database, std::span<const Migration> known);

}  // namespace pons::store
