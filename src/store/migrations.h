#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "database.h"
#include "pons/base/result.h"

namespace pons::store {

// NNNN_name.sql of migrations/, and behind it NNNN_name.sqlite.sql or NNNN_name.postgres.sql where
// the two differ. Never changed once it was released: stores carry the digest.
struct Migration {
  std::int64_t number;
  std::string name;
  std::string sql;
};

// All of them, in their order.
std::span<const Migration> migrations(Dialect dialect);

// How many of `known` have made the tables of this file, in order from the first. An error when one
// of them was another text, or there is one that is not known.
Result<std::int64_t> count_applied(Database& database, std::span<const Migration> known);

// Applies those that are missing, each in a transaction of its own.
Result<void> migrate(Database& database, std::span<const Migration> known);

}  // namespace pons::store
