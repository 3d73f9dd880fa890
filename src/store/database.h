#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/unique_handle.h"
#include "pons/store/store.h"

// NOLINTBEGIN(readability-identifier-naming): SQLite's
struct sqlite3;
struct sqlite3_stmt;
// NOLINTEND(readability-identifier-naming)

namespace pons::store {

struct ConnectionTraits {
  using Value = sqlite3*;
  static Value empty() { return nullptr; }
  static void close(Value connection) noexcept;
};
struct PreparedTraits {
  using Value = sqlite3_stmt*;
  static Value empty() { return nullptr; }
  static void close(Value prepared) noexcept;
};

enum class Access : std::uint8_t {
  kReadWrite,  // of a file that exists
  kReadOnly,   // beside a writer
  kUntouched,  // of a file that nobody has open: nothing is written, not even beside it
};

struct RowLimits {
  std::size_t rows;
  std::size_t bytes;
};

// One connection to one file, used by one thread at a time.
class Database {
 public:
  // `shown` is the file's name in messages.
  static Result<Database> open(const std::string& path, std::string shown, Access access);

  // A statement of a caller: it can read and change rows, and nothing else.
  Result<Outcome> run(const Statement& statement, const RowLimits& limits);
  // Words of our own: transactions, settings, tables. One or several statements.
  Result<void> execute(const std::string& sql);
  // A question of our own about the file itself, such as a PRAGMA.
  Result<std::vector<Row>> ask(const Statement& statement);

  // What runs past it ends with kTimeout. kNever: no end.
  void set_deadline(TimePoint deadline);
  // Ends what runs, with kTimeout. From any thread.
  void interrupt();
  bool in_transaction() const;
  // The file turned out to be damaged, or the disk no longer keeps what it is given: what was
  // written since the last answer may be gone.
  bool is_damaged() const { return state_->damaged; }
  const std::string& shown() const { return state_->shown; }

 private:
  using Prepared = UniqueHandle<PreparedTraits>;
  // On the heap: SQLite holds its address.
  struct State {
    std::string shown;
    bool trusted = false;
    bool damaged = false;
    TimePoint deadline = kNever;
  };

  Database(UniqueHandle<ConnectionTraits> connection, std::unique_ptr<State> state);
  static int authorize(void* state, int action, const char*, const char*, const char*, const char*);
  static int is_late(void* state);
  Result<void> configure();
  Result<Prepared> prepare(std::string_view sql);
  Result<sqlite3_stmt*> find_prepared(const std::string& sql);
  Result<void> bind(sqlite3_stmt* prepared, const std::vector<Value>& values);
  Result<Outcome> step_through(sqlite3_stmt* prepared, const RowLimits& limits);
  Error failure(const char* step, int code);

  std::unique_ptr<State> state_;
  UniqueHandle<ConnectionTraits> connection_;
  std::unordered_map<std::string, Prepared> prepared_;  // after the connection: goes before it
};

// Ends an open transaction without effect unless it was committed.
class Rollback {
 public:
  explicit Rollback(Database& database) : database_(database) {}
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  ~Rollback() {
    if (database_.in_transaction()) (void)database_.execute("ROLLBACK");
  }

 private:
  Database& database_;
};

}  // namespace pons::store
