#include "migrations.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/base/text.h"

namespace {
struct MigrationFile {
  const char* name;
  const char* begin;
  const char* end;
};
}  // namespace

// NOLINTBEGIN(readability-identifier-naming): symbols of a table that CMakeLists.txt writes
extern "C" {
extern const MigrationFile pons_store_migrations_begin[];
extern const MigrationFile pons_store_migrations_end[];
}
// NOLINTEND(readability-identifier-naming)

namespace pons::store {

namespace {

std::string label(std::int64_t number, std::string_view name) {
  return fmt::format("{:04}_{}", number, name);
}

// "0007_name.sql", "0007_name.sqlite.sql"
struct FileName {
  std::int64_t number;
  std::string_view name;
  std::string_view kind;  // empty: for both
};
FileName read_name(std::string_view text) {
  constexpr std::size_t kDigits = 4;
  constexpr std::string_view kEnding = ".sql";
  CHECK(text.size() > kDigits + 1 + kEnding.size() && text.ends_with(kEnding));
  const auto number = parse_decimal(text.substr(0, kDigits));
  CHECK(number.has_value());
  std::string_view name = text.substr(kDigits + 1, text.size() - kDigits - 1 - kEnding.size());
  std::string_view kind;
  if (const std::size_t dot = name.find('.'); dot != std::string_view::npos) {
    kind = name.substr(dot + 1);
    name = name.substr(0, dot);
  }
  return {.number = static_cast<std::int64_t>(*number), .name = name, .kind = kind};
}

// The files stand in the order of their numbers, and what is for both before what is for one.
std::vector<Migration> read_files(Dialect dialect) {
  const std::string_view wanted = dialect == Dialect::kSqlite ? "sqlite" : "postgres";
  std::vector<MigrationFile> files(pons_store_migrations_begin, pons_store_migrations_end);
  std::ranges::sort(files, {}, [](const MigrationFile& file) {
    const FileName name = read_name(file.name);
    return std::pair(name.number, name.kind);
  });
  std::vector<Migration> all;
  for (const MigrationFile& file : files) {
    const FileName name = read_name(file.name);
    if (!name.kind.empty() && name.kind != wanted) continue;
    if (all.empty() || all.back().number != name.number)
      all.push_back({.number = name.number, .name = std::string(name.name), .sql = {}});
    all.back().sql.append(file.begin, file.end);
  }
  return all;
}

}  // namespace

std::span<const Migration> migrations(Dialect dialect) {
  static const std::vector<Migration> kSqlite = read_files(Dialect::kSqlite);
  static const std::vector<Migration> kPostgres = read_files(Dialect::kPostgres);
  return dialect == Dialect::kSqlite ? kSqlite : kPostgres;
}

const char* const kMigrationsTable =
    "CREATE TABLE IF NOT EXISTS schema_migrations ("
    "number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL, "
    "applied BIGINT NOT NULL)";
const char* const kAppliedMigrations =
    "SELECT number, name, digest FROM schema_migrations ORDER BY number";

Result<std::int64_t> check_applied(std::span<const Row> rows, std::span<const Migration> known,
                                   std::string_view shown) {
  const auto refuse = [&](std::string_view what) {
    return make_error(ErrorCode::kUnsupported, "check migrations",
                      fmt::format("{} {}", shown, what));
  };
  std::int64_t count = 0;
  for (const Row& row : rows) {
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

}  // namespace pons::store
