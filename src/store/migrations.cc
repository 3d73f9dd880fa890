#include "migrations.h"

#include <array>
#include <chrono>

#include <fmt/format.h>

#include "pons/base/text.h"

// NOLINTBEGIN(readability-identifier-naming): symbols of migrations.S
extern "C" {
extern const char pons_store_migration_0001_begin[];
extern const char pons_store_migration_0001_end[];
extern const char pons_store_migration_0002_begin[];
extern const char pons_store_migration_0002_end[];
extern const char pons_store_migration_0003_begin[];
extern const char pons_store_migration_0003_end[];
extern const char pons_store_migration_0004_begin[];
extern const char pons_store_migration_0004_end[];
extern const char pons_store_migration_0005_begin[];
extern const char pons_store_migration_0005_end[];
extern const char pons_store_migration_0006_begin[];
extern const char pons_store_migration_0006_end[];
}
// NOLINTEND(readability-identifier-naming)

namespace pons::store {

namespace {

constexpr RowLimits kLimits{.rows = 10'000, .bytes = 4ULL << 20};

constexpr const char* kMigrationsTable =
    "CREATE TABLE IF NOT EXISTS schema_migrations ("
    "number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL, "
    "applied BIGINT NOT NULL)";

std::string label(std::int64_t number, std::string_view name) {
  return fmt::format("{:04}_{}", number, name);
}

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
  TRY_VOID(database.execute(std::string(migration.sql)));
  TRY(database.run({.sql = "INSERT INTO schema_migrations (number, name, digest, applied) "
                           "VALUES ($1, $2, $3, $4)",
                    .values = {migration.number, std::string(migration.name),
                               sha256_hex(migration.sql), now.count()}},
                   kLimits));
  TRY_VOID(database.execute("COMMIT"));
  return {};
}

}  // namespace

std::span<const Migration> migrations() {
  static const std::array<Migration, 6> kAll = {{
      {.number = 1,
       .name = "projects_and_keys",
       .sql = {pons_store_migration_0001_begin, pons_store_migration_0001_end}},
      {.number = 2,
       .name = "sandboxes",
       .sql = {pons_store_migration_0002_begin, pons_store_migration_0002_end}},
      {.number = 3,
       .name = "open_sandboxes",
       .sql = {pons_store_migration_0003_begin, pons_store_migration_0003_end}},
      {.number = 4,
       .name = "model_keys",
       .sql = {pons_store_migration_0004_begin, pons_store_migration_0004_end}},
      {.number = 5,
       .name = "sessions",
       .sql = {pons_store_migration_0005_begin, pons_store_migration_0005_end}},
      {.number = 6,
       .name = "sandbox_charges",
       .sql = {pons_store_migration_0006_begin, pons_store_migration_0006_end}},
  }};
  return kAll;
}

Result<std::int64_t> count_applied(Database& database, std::span<const Migration> known) {
  if (!TRY(has_migrations_table(database))) return 0;
  const auto applied = TRY(database.run(
      {.sql = "SELECT number, name, digest FROM schema_migrations ORDER BY number", .values = {}},
      kLimits));
  const auto refuse = [&](std::string_view what) {
    return make_error(ErrorCode::kUnsupported, "check migrations",
                      fmt::format("{} {}", database.shown(), what));
  };
  std::int64_t count = 0;
  for (const Row& row : applied.rows) {
    const auto number = TRY(integer_of(row, 0));
    const auto name = TRY(text_of(row, 1));
    if (static_cast<std::size_t>(count) >= known.size())
      return refuse(
          fmt::format("was made by a newer Pons (migration {} is not known here); run that version "
                      "again, or restore a backup that this version made",
                      label(number, name)));
    const Migration& expected = known[static_cast<std::size_t>(count)];
    if (number != expected.number || TRY(text_of(row, 2)) != sha256_hex(expected.sql))
      return refuse(
          fmt::format("was made with another text of migration {}; run the Pons that made it, or "
                      "restore a backup that this version made",
                      label(number, name)));
    ++count;
  }
  return count;
}

Result<void> migrate(Database& database, std::span<const Migration> known) {
  TRY_VOID(database.execute(kMigrationsTable));
  const auto applied = TRY(count_applied(database, known));
  for (const Migration& migration : known.subspan(static_cast<std::size_t>(applied)))
    TRY_VOID(apply(database, migration));
  return {};
}

}  // namespace pons::store
