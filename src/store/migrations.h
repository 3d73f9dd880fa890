#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/store/store.h"

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

// The table that a database keeps them in, and what is read of it.
extern const char* const kMigrationsTable;
extern const char* const kAppliedMigrations;

// How many of `known` have made the tables, in order from the first, by the rows of
// kAppliedMigrations. An error when one of them was another text, or there is one that is not
// known. `shown` is the name of the database in messages.
Result<std::int64_t> check_applied(std::span<const Row> rows, std::span<const Migration> known,
                                   std::string_view shown);

}  // namespace pons::store
