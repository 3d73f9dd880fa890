#include "statements.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/memory/path.h"

namespace pons::memory {

namespace {

using store::Statement;

constexpr std::int64_t kUsesCounted = 20;
constexpr std::int64_t kUseMs = 6LL * 60 * 60 * 1000;

// Of memories AS m, memory_stores AS s and memory_versions AS v.
Statement take_out_of_index(std::string_view which, Values values) {
  return {.sql = fmt::format(
              "INSERT INTO memory_search (memory_search, rowid, path, content) "
              "SELECT 'delete', s.number * {} + m.number, m.path, v.content FROM memories AS m "
              "JOIN memory_stores AS s ON s.id = m.store_id "
              "JOIN memory_versions AS v ON v.id = m.version_id WHERE {}",
              kRowsOfStore, which),
          .values = std::move(values)};
}

// PostgreSQL takes "/a/b.md" for one word.
std::string words_of_path(std::string path) {
  std::ranges::replace_if(
      path, [](char c) { return static_cast<unsigned char>(c) < 0x80 && std::isalnum(c) == 0; },
      ' ');
  return path;
}

}  // namespace

std::string parameter(Values& values, store::Value value) {
  values.push_back(std::move(value));
  return fmt::format("${}", values.size());
}

std::string parameters(Values& values, const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts)
    list += (list.empty() ? "" : ", ") + parameter(values, text);
  return list;
}

Statement count_growth(const Place& place, Growth growth, const MemoryLimits& limits) {
  return {.sql =
              "UPDATE memory_stores SET revision = revision + 1, memories = memories + $3, "
              "bytes = bytes + $4 WHERE id = $1 AND project_id = $2 AND archived IS NULL "
              "AND deleted IS NULL AND memories + $3 <= $5 AND bytes + $4 <= $6",
          .values = {place.store, place.project, growth.memories, growth.bytes, limits.memories,
                     limits.bytes},
          .must_change = 1};
}

Statement count_loss(const Place& place, Growth loss) {
  return {.sql =
              "UPDATE memory_stores SET revision = revision + 1, memories = memories - $3, "
              "bytes = bytes - $4 WHERE id = $1 AND project_id = $2 AND deleted IS NULL",
          .values = {place.store, place.project, loss.memories, loss.bytes},
          .must_change = 1};
}

Conflicts find_conflicts(Values& values, std::string_view store, std::string_view except,
                         const std::string& path) {
  const std::string others = fmt::format(
      "FROM memories AS o WHERE o.store_id = {} AND o.id <> {} AND o.path", store, except);
  const std::string above = parameters(values, folders_and_itself(path));
  const PathInterval below = below_folder(path);
  const std::string first = parameter(values, below.first);
  return {.above = fmt::format("{} IN ({})", others, above),
          .below =
              fmt::format("{} >= {} AND o.path < {}", others, first, parameter(values, below.end))};
}

std::string no_conflicts(const Conflicts& conflicts) {
  return fmt::format("NOT EXISTS (SELECT 1 {}) AND NOT EXISTS (SELECT 1 {})", conflicts.above,
                     conflicts.below);
}

std::string version_of_change(std::string_view change) {
  constexpr std::size_t kDigits = 32;
  return "memver_" + sha256_hex(change).substr(0, kDigits);
}

Statement insert_version(const Place& place, const NewVersion& version) {
  const bool is_there = version.content != nullptr;
  const auto or_null = [&](store::Value value) {
    return is_there ? std::move(value) : store::Value(store::Null());
  };
  return {
      .sql =
          "INSERT INTO memory_versions (id, project_id, store_id, memory_id, number, operation, "
          "path, sha256, size, provenance, actor_kind, actor_id, created, content) "
          "SELECT $3, s.project_id, s.id, $4, s.revision, $5, $6, $7, CAST($8 AS BIGINT), $9, "
          "$10, $11, CAST($12 AS BIGINT), $13 FROM memory_stores AS s "
          "WHERE s.id = $1 AND s.project_id = $2",
      .values = {place.store, place.project, version.id, version.memory,
                 std::string(name_of(version.operation)), version.path,
                 or_null(is_there ? sha256_hex(*version.content) : std::string()),
                 or_null(is_there ? static_cast<std::int64_t>(version.content->size()) : 0),
                 std::string(name_of(version.provenance)), std::string(name_of(version.actor.kind)),
                 version.actor.id, version.created_ms,
                 or_null(is_there ? *version.content : std::string())},
      .must_change = 1};
}

void add_words(store::Dialect dialect, const std::string& memory, const std::string& path,
               const std::string& content, store::Transaction& out) {
  if (dialect == store::Dialect::kSqlite)
    out.push_back({.sql = fmt::format("INSERT INTO memory_search (rowid, path, content) "
                                      "SELECT s.number * {} + m.number, $2, $3 FROM memories AS m "
                                      "JOIN memory_stores AS s ON s.id = m.store_id "
                                      "WHERE m.id = $1",
                                      kRowsOfStore),
                   .values = {memory, path, content}});
  else
    out.push_back({.sql = "UPDATE memories SET search = setweight(to_tsvector('english', $2), 'A') "
                          "|| to_tsvector('english', $3) WHERE id = $1",
                   .values = {memory, words_of_path(path), content}});
}

// In PostgreSQL they are a column of the row.
void remove_words(store::Dialect dialect, const std::string& memory, store::Transaction& out) {
  if (dialect == store::Dialect::kSqlite) out.push_back(take_out_of_index("m.id = $1", {memory}));
}

void remove_words_up_to(store::Dialect dialect, const std::string& store, std::int64_t number,
                        store::Transaction& out) {
  if (dialect == store::Dialect::kSqlite)
    out.push_back(take_out_of_index("m.store_id = $1 AND m.number <= $2", {store, number}));
}

std::string weight_sql(std::string_view touched, std::string_view uses) {
  return fmt::format("{0} + (CASE WHEN {1} > {2} THEN {2} ELSE {1} END) * {3}", touched, uses,
                     kUsesCounted, kUseMs);
}

}  // namespace pons::memory
