#include "database.h"

#include <sqlite3.h>

#include <fmt/format.h>

#include "own_files.h"
#include "pons/base/check.h"
#include "pons/base/text.h"
#include "sqlite_error.h"

namespace pons::store {

namespace {

constexpr std::size_t kPreparedMax = 256;
constexpr int kBusyMilliseconds = 5'000;
constexpr int kStepsBetweenLooks = 10'000;
constexpr RowLimits kOwnLimits{.rows = 1'000, .bytes = 1ULL << 20};

// The path as a URI: what would end it, or would be decoded, is encoded.
std::string untouched_uri(std::string_view path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '?' || c == '#' || c == '%')
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else
      uri += c;
  }
  return uri + "?mode=ro&immutable=1";
}

Result<Value> column_value(sqlite3_stmt* prepared, int column) {
  const auto bytes = [&](const void* data) {
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(prepared, column));
    return size == 0 ? std::string() : std::string(static_cast<const char*>(data), size);
  };
  switch (sqlite3_column_type(prepared, column)) {
    case SQLITE_NULL:
      return Value(Null());
    case SQLITE_INTEGER:
      return Value(static_cast<std::int64_t>(sqlite3_column_int64(prepared, column)));
    case SQLITE_TEXT:
      return Value(bytes(sqlite3_column_text(prepared, column)));
    case SQLITE_BLOB:
      return Value(Blob{bytes(sqlite3_column_blob(prepared, column))});
    default:
      return make_error(ErrorCode::kInternal, "read row", "a column is a floating point number");
  }
}

std::size_t size_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text->size();
  if (const auto* blob = std::get_if<Blob>(&value)) return blob->bytes.size();
  return sizeof(std::int64_t);
}

int bind_value(sqlite3_stmt* prepared, int index, const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value))
    return sqlite3_bind_int64(prepared, index, *number);
  if (const auto* text = std::get_if<std::string>(&value))
    return sqlite3_bind_text64(prepared, index, text->data(), text->size(), SQLITE_STATIC,
                               SQLITE_UTF8);
  if (const auto* blob = std::get_if<Blob>(&value))
    return sqlite3_bind_blob64(prepared, index, blob->bytes.data(), blob->bytes.size(),
                               SQLITE_STATIC);
  return sqlite3_bind_null(prepared, index);
}

// Ready for its next use, and without pointers to values that are gone.
struct Rewind {
  sqlite3_stmt* prepared;
  ~Rewind() {
    sqlite3_reset(prepared);
    sqlite3_clear_bindings(prepared);
  }
};

struct Trust {
  explicit Trust(bool& flag) : trusted(flag) { trusted = true; }
  ~Trust() { trusted = false; }
  bool& trusted;
};

}  // namespace

void ConnectionTraits::close(sqlite3* connection) noexcept {
  sqlite3_close(connection);
}

void PreparedTraits::close(sqlite3_stmt* prepared) noexcept {
  sqlite3_finalize(prepared);
}

Database::Database(UniqueHandle<ConnectionTraits> connection, std::unique_ptr<State> state)
    : state_(std::move(state)), connection_(std::move(connection)) {}

// ---- opening

Result<Database> Database::open(const std::string& path, std::string shown, Access access) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= access == Access::kReadWrite ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  if (access == Access::kUntouched) flags |= SQLITE_OPEN_URI;
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(access == Access::kUntouched ? untouched_uri(path).c_str() : path.c_str(),
                      &opened, flags, own_files());
  UniqueHandle<ConnectionTraits> connection(opened);
  if (code != SQLITE_OK) return error_of_sqlite(opened, code, "open store", shown);
  Database database(std::move(connection),
                    std::make_unique<State>(State{.shown = std::move(shown)}));
  TRY_VOID(database.configure());
  return database;
}

Result<void> Database::configure() {
  sqlite3* const connection = connection_.get();
  sqlite3_busy_timeout(connection, kBusyMilliseconds);
  sqlite3_limit(connection, SQLITE_LIMIT_ATTACHED, 1);  // what a copy is written to
  sqlite3_set_authorizer(connection, authorize, state_.get());
  sqlite3_progress_handler(connection, kStepsBetweenLooks, is_late, state_.get());
  // A file may come from anywhere: its tables are data and never code.
  for (const auto& [option, value] :
       {std::pair{SQLITE_DBCONFIG_DEFENSIVE, 1}, std::pair{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        std::pair{SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, std::pair{SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        std::pair{SQLITE_DBCONFIG_DQS_DML, 0}, std::pair{SQLITE_DBCONFIG_DQS_DDL, 0}})
    CHECK(sqlite3_db_config(connection, option, value, nullptr) == SQLITE_OK);
  return execute(
      "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; PRAGMA cell_size_check = ON; "
      "PRAGMA journal_size_limit = 67108864; PRAGMA temp_store = MEMORY");
}

int Database::authorize(void* state, int action, const char* first, const char* second, const char*,
                        const char*) {
  if (static_cast<const State*>(state)->trusted) return SQLITE_OK;
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    // FTS5 asks it, to see whether another connection has changed its tables. It is a number, and
    // asking changes nothing.
    case SQLITE_PRAGMA:
      return second == nullptr && std::string_view(first) == "data_version" ? SQLITE_OK
                                                                            : SQLITE_DENY;
    default:
      return SQLITE_DENY;
  }
}

int Database::is_late(void* state) {
  const TimePoint deadline = static_cast<const State*>(state)->deadline;
  return deadline != kNever && std::chrono::steady_clock::now() > deadline ? 1 : 0;
}

void Database::set_deadline(TimePoint deadline) {
  state_->deadline = deadline;
}

void Database::interrupt() {
  sqlite3_interrupt(connection_.get());
}

bool Database::in_transaction() const {
  return sqlite3_get_autocommit(connection_.get()) == 0;
}

Error Database::failure(const char* step, int code) {
  if (means_damage(code)) state_->damaged = true;
  return error_of_sqlite(connection_.get(), code, step, state_->shown);
}

// ---- running

Result<Database::Prepared> Database::prepare(std::string_view sql) {
  sqlite3_stmt* made = nullptr;
  const char* rest = nullptr;
  const int code = sqlite3_prepare_v3(connection_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &made, &rest);
  Prepared prepared(made);
  if (code != SQLITE_OK) return failure("prepare statement", code);
  if (!prepared || !trim(sql.substr(static_cast<std::size_t>(rest - sql.data()))).empty())
    return make_error(ErrorCode::kInvalid, "prepare statement", "one statement at a time");
  return prepared;
}

Result<sqlite3_stmt*> Database::find_prepared(const std::string& sql) {
  if (const auto known = prepared_.find(sql); known != prepared_.end()) return known->second.get();
  auto prepared = TRY(prepare(sql));
  if (prepared_.size() >= kPreparedMax) prepared_.clear();
  return prepared_.emplace(sql, std::move(prepared)).first->second.get();
}

// By name: SQLite numbers parameters in the order in which they stand, PostgreSQL by their digits.
Result<void> Database::bind(sqlite3_stmt* prepared, const std::vector<Value>& values) {
  const auto wrong = [] {
    return make_error(ErrorCode::kInvalid, "bind values",
                      "parameters are $1, $2 …, each with one value");
  };
  if (static_cast<std::size_t>(sqlite3_bind_parameter_count(prepared)) != values.size())
    return wrong();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int index = sqlite3_bind_parameter_index(prepared, fmt::format("${}", i + 1).c_str());
    if (index == 0) return wrong();
    if (const int code = bind_value(prepared, index, values[i]); code != SQLITE_OK)
      return failure("bind values", code);
  }
  return {};
}

Result<Outcome> Database::step_through(sqlite3_stmt* prepared, const RowLimits& limits) {
  Outcome outcome;
  std::size_t bytes = 0;
  for (;;) {
    const int code = sqlite3_step(prepared);
    if (code == SQLITE_DONE) break;
    if (code != SQLITE_ROW) return failure("run statement", code);
    Row row;
    for (int column = 0; column < sqlite3_column_count(prepared); ++column) {
      row.push_back(TRY(column_value(prepared, column)));
      bytes += size_of(row.back());
    }
    outcome.rows.push_back(std::move(row));
    if (outcome.rows.size() > limits.rows || bytes > limits.bytes)
      return make_error(
          ErrorCode::kLimit, "run statement",
          fmt::format("the answer has more than {} rows or {} bytes", limits.rows, limits.bytes));
  }
  if (sqlite3_stmt_readonly(prepared) == 0) outcome.changed = sqlite3_changes64(connection_.get());
  return outcome;
}

Result<Outcome> Database::run(const Statement& statement, const RowLimits& limits) {
  sqlite3_stmt* const prepared = TRY(find_prepared(statement.sql));
  const Rewind at_end{prepared};
  TRY_VOID(bind(prepared, statement.values));
  return step_through(prepared, limits);
}

Result<std::vector<Row>> Database::ask(const Statement& statement) {
  const Trust trust(state_->trusted);
  const auto prepared = TRY(prepare(statement.sql));
  TRY_VOID(bind(prepared.get(), statement.values));
  return TRY(step_through(prepared.get(), kOwnLimits)).rows;
}

Result<void> Database::execute(const std::string& sql) {
  const Trust trust(state_->trusted);
  const int code = sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return failure("run statement", code);
  return {};
}

}  // namespace pons::store
