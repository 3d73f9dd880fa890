#include "file_migrations.h"

#include <chrono>

#include "pons/base/text.h"

namespace pons::store {

namespace {

constexpr RowLimits kLimits{.rows = 10'000, .bytes = 4ULL << 20};

Result<bool> has_migrations_table(Database& database) {
  const auto found = TRY(database.run(
      {.sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'",
       .values = {}},
      kLimits));
  return !found.rows.empty();
}

Result<void> apply(Database& database, const Migration& migration) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  TRY_VOID(database.execute("BEGIN IMMEDIATE"));
  Rollback rollback(database);
  TRY_VOID(database.execute(migration.sql));
  TRY(database.run(
      {.sql = "INSERT INTO schema_migrations (number, name, digest, applied) "
              "VALUES ($1, $2, $3, $4)",
       .values = {migration.number, migration.name, sha256_hex(migration.sql), now.count()}},
      kLimits));
  TRY_VOID(database.execute("COMMIT"));
  return {};
}

}  // namespace

Result<std::int64_t> count_applied(Database& database, std::span<const Migration> known) {
  if (!TRY(has_migrations_table(database))) return 0;
  const auto applied = TRY(database.run({.sql = kAppliedMigrations, .values = {}}, kLimits));
  return check_applied(applied.rows, known, database.shown());
}

Result<void> migrate(Database& database, std::span<const Migration> known) {
  TRY_VOID(database.execute(kMigrationsTable));
  const auto applied = TRY(count_applied(database, known));
  for (const Migration& migration : known.subspan(static_cast<std::size_t>(applied)))
    TRY_VOID(apply(database, migration));
  return {};
}

}  // namespace pons::store
