#include "table_shape.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pons/base/text.h"

namespace pons::store {

namespace {

// Parameters of one statement: its text has a limit of its own.
constexpr std::size_t kValuesMax = 1'500;
// Which nodes are there is no part of what is kept; neither is how the tables were made.
constexpr std::string_view kNotCopied[] = {"schema_migrations", "nodes"};

std::string list_of(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string parameters(std::size_t first, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += fmt::format("{}${}", i == 0 ? "" : ", ", first + i);
  return text;
}

void append_value(const Value& value, std::string& out) {
  if (const auto* number = std::get_if<std::int64_t>(&value))
    out += fmt::format("i{};", *number);
  else if (const auto* text = std::get_if<std::string>(&value))
    out += fmt::format("t{}:{}", text->size(), *text);
  else if (const auto* blob = std::get_if<Blob>(&value))
    out += fmt::format("b{}:{}", blob->bytes.size(), blob->bytes);
  else
    out += "n";
}

// Those come first that others need. Tables do not refer to each other in circles.
Result<std::vector<TableShape>> in_order(std::vector<TableShape> tables) {
  std::vector<TableShape> sorted;
  std::set<std::string> there;
  while (!tables.empty()) {
    const auto next = std::ranges::find_if(tables, [&](const TableShape& table) {
      return std::ranges::all_of(table.needs, [&](const std::string& need) {
        return need == table.name || there.contains(need);
      });
    });
    if (next == tables.end())
      return make_error(ErrorCode::kInternal, "copy store", "tables refer to each other");
    there.insert(next->name);
    sorted.push_back(std::move(*next));
    tables.erase(next);
  }
  return sorted;
}

}  // namespace

Statement TableShape::read_some(const Row& after, std::int64_t limit) const {
  Statement statement{.sql = {}, .values = after};
  std::string where;
  if (!after.empty())
    where = fmt::format(" WHERE ({}) > ({})", list_of(keys), parameters(1, after.size()));
  statement.values.emplace_back(limit);
  statement.sql = fmt::format("SELECT {} FROM {}{} ORDER BY {} LIMIT ${}", list_of(columns), name,
                              where, list_of(keys), statement.values.size());
  return statement;
}

Row TableShape::key_of(const Row& row) const {
  Row key;
  for (const std::string& column : keys) {
    const auto place = std::ranges::find(columns, column) - columns.begin();
    key.push_back(row.at(static_cast<std::size_t>(place)));
  }
  return key;
}

Statement TableShape::insert(const std::vector<Row>& rows) const {
  Statement statement{.sql = fmt::format("INSERT INTO {} ({}) VALUES ", name, list_of(columns)),
                      .values = {},
                      .must_change = static_cast<std::int64_t>(rows.size())};
  for (const Row& row : rows) {
    if (!statement.values.empty()) statement.sql += ", ";
    statement.sql += fmt::format("({})", parameters(statement.values.size() + 1, row.size()));
    statement.values.insert(statement.values.end(), row.begin(), row.end());
  }
  return statement;
}

std::size_t TableShape::rows_per_insert() const {
  return std::max<std::size_t>(1, kValuesMax / columns.size());
}

Task<Result<std::vector<TableShape>>> list_tables(Store& postgres) {
  std::vector<TableShape> tables;
  const auto find = [&](const std::string& name) {
    return std::ranges::find(tables, name, &TableShape::name);
  };
  CO_TRY(const auto columns,
         co_await postgres.read(
             {.sql = "SELECT CAST(c.table_name AS TEXT), CAST(c.column_name AS TEXT), "
                     "CAST(c.data_type AS TEXT) FROM information_schema.columns AS c "
                     "JOIN information_schema.tables AS t ON t.table_schema = c.table_schema "
                     "AND t.table_name = c.table_name AND t.table_type = 'BASE TABLE' "
                     "WHERE c.table_schema = current_schema() "
                     "ORDER BY c.table_name, c.ordinal_position",
              .values = {}}));
  for (const Row& row : columns) {
    CO_TRY(const auto table, text_of(row, 0));
    CO_TRY(auto column, text_of(row, 1));
    CO_TRY(const auto type, text_of(row, 2));
    if (std::ranges::find(kNotCopied, table) != std::end(kNotCopied) || type == "tsvector")
      continue;
    if (find(table) == tables.end()) tables.push_back({.name = table});
    tables.back().columns.push_back(std::move(column));
  }
  CO_TRY(const auto keys,
         co_await postgres.read(
             {.sql = "SELECT CAST(k.table_name AS TEXT), CAST(k.column_name AS TEXT) "
                     "FROM information_schema.table_constraints AS c "
                     "JOIN information_schema.key_column_usage AS k "
                     "ON k.constraint_name = c.constraint_name AND k.table_name = c.table_name "
                     "AND k.table_schema = c.table_schema WHERE c.constraint_type = 'PRIMARY KEY' "
                     "AND c.table_schema = current_schema() "
                     "ORDER BY k.table_name, k.ordinal_position",
              .values = {}}));
  for (const Row& row : keys) {
    CO_TRY(const auto table, text_of(row, 0));
    CO_TRY(auto column, text_of(row, 1));
    if (const auto found = find(table); found != tables.end())
      found->keys.push_back(std::move(column));
  }
  CO_TRY(const auto needs,
         co_await postgres.read(
             {.sql = "SELECT CAST(a.relname AS TEXT), CAST(b.relname AS TEXT) "
                     "FROM pg_constraint AS c JOIN pg_class AS a ON a.oid = c.conrelid "
                     "JOIN pg_class AS b ON b.oid = c.confrelid "
                     "JOIN pg_namespace AS n ON n.oid = a.relnamespace "
                     "WHERE c.contype = 'f' AND n.nspname = current_schema()",
              .values = {}}));
  for (const Row& row : needs) {
    CO_TRY(const auto table, text_of(row, 0));
    CO_TRY(auto need, text_of(row, 1));
    if (const auto found = find(table); found != tables.end())
      found->needs.push_back(std::move(need));
  }
  for (const TableShape& table : tables)
    if (table.keys.empty())
      co_return make_error(ErrorCode::kInternal, "copy store",
                           fmt::format("table {} has no key", table.name));
  co_return in_order(std::move(tables));
}

void RowsDigest::add(const Row& row) {
  constexpr std::size_t kDigits = 16;  // of one of the sums
  constexpr int kHexadecimal = 16;
  std::string bytes;
  for (const Value& value : row) append_value(value, bytes);
  const std::string digest = sha256_hex(bytes);
  for (std::size_t i = 0; i < std::size(sums_); ++i) {
    std::uint64_t part = 0;
    const char* const begin = digest.data() + i * kDigits;
    std::from_chars(begin, begin + kDigits, part, kHexadecimal);
    sums_[i] += part;
  }
  ++rows_;
}

std::string RowsDigest::text() const {
  return fmt::format("{:016x}{:016x}{:016x}{:016x}", sums_[0], sums_[1], sums_[2], sums_[3]);
}

}  // namespace pons::store
