#include "pons/store/sqlite_store.h"

#include <atomic>

#include "asked_bytes.h"
#include "database.h"
#include "open_file.h"
#include "reader.h"
#include "writer.h"

namespace pons::store {

namespace {

Result<std::vector<Row>> copy_file(Database& database, std::string path) {
  return database.ask({.sql = "VACUUM INTO $1", .values = {std::move(path)}});
}

}  // namespace

struct SqliteStore::Threads {
  Threads(linux::Loop& loop, const StoreLimits& limits, Database writing, Database reading,
          Database copying)
      : writer(loop, std::move(writing), limits, damaged),
        reader(loop, std::move(reading),
               {.queued = limits.queued,
                .queued_bytes = limits.queued_bytes,
                .time = limits.read_time},
               damaged),
        copier(loop, std::move(copying),
               {.queued = 1, .queued_bytes = limits.queued_bytes, .time = limits.copy_time},
               damaged) {}
  std::atomic<bool> damaged = false;
  Writer writer;
  Reader reader;
  Reader copier;
};

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(linux::Loop& loop, StoreOptions options) {
  if (options.shown.empty()) options.shown = options.path;
  Database writing = TRY(open_or_create(options.path, options.shown, migrations(Dialect::kSqlite)));
  Database reading = TRY(Database::open(options.path, options.shown, Access::kReadOnly));
  Database copying = TRY(Database::open(options.path, options.shown, Access::kReadWrite));
  auto threads = std::make_unique<Threads>(loop, options.limits, std::move(writing),
                                           std::move(reading), std::move(copying));
  return std::unique_ptr<SqliteStore>(
      new SqliteStore(loop, std::move(options), std::move(threads)));
}

SqliteStore::SqliteStore(linux::Loop& loop, StoreOptions options, std::unique_ptr<Threads> threads)
    : loop_(loop), options_(std::move(options)), threads_(std::move(threads)) {}

SqliteStore::~SqliteStore() = default;

Task<Result<std::vector<Outcome>>> SqliteStore::write(Transaction transaction) {
  CO_TRY(const std::size_t bytes, asked_bytes(transaction, options_.limits));
  CO_TRY(auto answer, threads_->writer.push(std::move(transaction), bytes));
  co_return co_await Writer::Answer::wait(std::move(answer),
                                          loop_.now() + options_.limits.answer_time);
}

Task<Result<std::vector<Row>>> SqliteStore::read(Statement statement) {
  CO_TRY(const std::size_t bytes, asked_bytes(statement, options_.limits));
  const RowLimits limits{.rows = options_.limits.rows, .bytes = options_.limits.row_bytes};
  CO_TRY(auto answer,
         threads_->reader.push(
             [asked = std::move(statement), limits](Database& database) -> Result<Reader::Rows> {
               return TRY(database.run(asked, limits)).rows;
             },
             bytes));
  co_return co_await Reader::Answer::wait(std::move(answer),
                                          loop_.now() + options_.limits.answer_time);
}

Task<Result<void>> SqliteStore::copy_to(std::string path) {
  CO_TRY(auto answer, threads_->copier.push(
                          [to = std::move(path)](Database& database) mutable {
                            return copy_file(database, std::move(to));
                          },
                          0));
  CO_TRY_VOID(
      co_await Reader::Answer::wait(std::move(answer), loop_.now() + options_.limits.copy_time));
  co_return {};
}

}  // namespace pons::store
