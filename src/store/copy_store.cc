#include "pons/store/copy_store.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "table_shape.h"

namespace pons::store {

namespace {

constexpr std::int64_t kRowsAtOnce = 1'000;
// In the table of nodes, where a name has no blank: this target is not whole.
constexpr const char* kUnfinished = "unfinished copy";

// Reads a table from its first row to its last.
class Reading {
 public:
  Reading(Store& store, const TableShape& table) : store_(store), table_(table) {}

  // Empty at the end.
  Task<Result<std::vector<Row>>> next() {
    for (;;) {
      auto rows = co_await store_.read(table_.read_some(after_, limit_));
      if (rows && !rows->empty()) after_ = table_.key_of(rows->back());
      // Together they are more than a store gives at once.
      const bool is_too_much = !rows && rows.error().code == ErrorCode::kLimit && limit_ > 1;
      if (!is_too_much) co_return rows;
      limit_ = std::max<std::int64_t>(1, limit_ / 4);
    }
  }

 private:
  Store& store_;
  const TableShape& table_;
  Row after_;
  std::int64_t limit_ = kRowsAtOnce;
};

Task<Result<std::int64_t>> count_rows(Store& store, const std::string& table) {
  CO_TRY(const auto rows,
         co_await store.read({.sql = "SELECT count(*) FROM " + table, .values = {}}));
  co_return integer_of(rows.at(0), 0);
}

Task<Result<void>> write_one(Store& store, Statement statement) {
  Transaction all;
  all.push_back(std::move(statement));
  CO_TRY_VOID(co_await store.write(std::move(all)));
  co_return {};
}

// Rows of one read, in as many transactions as their size takes.
Task<Result<void>> insert(Store& to, const TableShape& table, std::vector<Row> rows) {
  const std::size_t at_once = table.rows_per_insert();
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = std::min(begin + at_once, rows.size());
    for (;;) {
      // Copied: when they are too much for one, they are tried again.
      const std::vector<Row> some(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                                  rows.begin() + static_cast<std::ptrdiff_t>(end));
      const auto written = co_await write_one(to, table.insert(some));
      if (written) break;
      if (written.error().code != ErrorCode::kLimit || end - begin == 1) co_return written.error();
      end = begin + (end - begin) / 2;
    }
    begin = end;
  }
  co_return {};
}

class Copying {
 public:
  Copying(Store& from, Store& to, CopyOptions options)
      : from_(from), to_(to), options_(std::move(options)) {}

  Task<Result<std::vector<CopiedTable>>> run() {
    Store& postgres = from_.dialect() == Dialect::kPostgres ? from_ : to_;
    CO_TRY(tables_, co_await list_tables(postgres));
    CO_TRY_VOID(co_await make_room());
    for (const TableShape& table : tables_) {
      CO_TRY(const auto rows, co_await count_rows(from_, table.name));
      progress_.total += 2 * rows;
    }
    std::vector<CopiedTable> copied;
    for (const TableShape& table : tables_) {
      CO_TRY(auto one, co_await copy(table));
      copied.push_back(std::move(one));
    }
    for (std::size_t i = 0; i < tables_.size(); ++i)
      CO_TRY_VOID(co_await check(tables_[i], copied[i]));
    if (options_.finish) CO_TRY_VOID(co_await options_.finish(to_));
    CO_TRY_VOID(co_await write_one(
        to_, {.sql = "DELETE FROM nodes WHERE name = $1", .values = {std::string(kUnfinished)}}));
    co_return copied;
  }

 private:
  // Refuses what somebody works with, and clears what is left of a copy that broke off.
  Task<Result<void>> make_room() {
    CO_TRY(const bool is_left_over, co_await is_unfinished_copy(to_));
    for (auto table = tables_.rbegin(); table != tables_.rend(); ++table) {
      CO_TRY(const auto rows, co_await count_rows(to_, table->name));
      if (rows == 0) continue;
      if (!is_left_over)
        co_return make_error(
            ErrorCode::kConflict, "copy store",
            fmt::format("the target is not empty: table {} has {} rows", table->name, rows));
      CO_TRY_VOID(co_await write_one(to_, {.sql = "DELETE FROM " + table->name, .values = {}}));
    }
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    co_return co_await write_one(
        to_, {.sql = "INSERT INTO nodes (name, started, alive_until) VALUES ($1, $2, 0) "
                     "ON CONFLICT (name) DO NOTHING",
              .values = {std::string(kUnfinished), now.count()}});
  }

  Task<Result<CopiedTable>> copy(const TableShape& table) {
    RowsDigest digest;
    Reading reading(from_, table);
    for (;;) {
      CO_TRY(auto rows, co_await reading.next());
      if (rows.empty()) break;
      for (const Row& row : rows) digest.add(row);
      tell("copying", table, rows.size());
      CO_TRY_VOID(co_await insert(to_, table, std::move(rows)));
    }
    co_return CopiedTable{.name = table.name, .rows = digest.rows(), .digest = digest.text()};
  }

  Task<Result<void>> check(const TableShape& table, const CopiedTable& copied) {
    RowsDigest digest;
    Reading reading(to_, table);
    for (;;) {
      CO_TRY(const auto rows, co_await reading.next());
      if (rows.empty()) break;
      for (const Row& row : rows) digest.add(row);
      tell("checking", table, rows.size());
    }
    if (digest.rows() == copied.rows && digest.text() == copied.digest) co_return {};
    co_return make_error(
        ErrorCode::kIo, "check copy",
        fmt::format("table {} is not the same in both: {} rows were copied, and {} "
                    "are there",
                    table.name, copied.rows, digest.rows()));
  }

  void tell(const char* verb, const TableShape& table, std::size_t rows) {
    progress_.what = fmt::format("{} {}", verb, table.name);
    progress_.done += static_cast<std::int64_t>(rows);
    if (options_.on_progress) options_.on_progress(progress_);
  }

  Store& from_;
  Store& to_;
  CopyOptions options_;
  std::vector<TableShape> tables_;
  CopyProgress progress_;
};

}  // namespace

Task<Result<std::vector<CopiedTable>>> copy_store(Store& from, Store& to, CopyOptions options) {
  Copying copying(from, to, std::move(options));
  co_return co_await copying.run();
}

Task<Result<bool>> is_unfinished_copy(Store& store) {
  CO_TRY(const auto rows, co_await store.read({.sql = "SELECT 1 FROM nodes WHERE name = $1",
                                               .values = {std::string(kUnfinished)}}));
  co_return !rows.empty();
}

}  // namespace pons::store
