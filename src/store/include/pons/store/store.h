#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"

// Durable tables behind one interface. The SQL is what SQLite and PostgreSQL 15 both take:
// parameters are $1, $2 …; columns are TEXT (UTF-8 without NUL), BIGINT and BYTEA. There is no
// floating point: times are milliseconds since 1970, money is counted in its smallest unit.

namespace pons::store {

struct Blob {
  std::string bytes;
  bool operator==(const Blob&) const = default;
};
using Null = std::monostate;
using Value = std::variant<Null, std::int64_t, std::string, Blob>;
using Row = std::vector<Value>;

// What a column was expected to hold; kIo when the row says otherwise.
Result<std::string> text_of(const Row& row, std::size_t column);
Result<std::int64_t> integer_of(const Row& row, std::size_t column);
Result<std::optional<std::int64_t>> optional_integer_of(const Row& row, std::size_t column);

struct Statement {
  std::string sql;  // one SELECT, INSERT, UPDATE or DELETE
  std::vector<Value> values;
  // So many rows it must change, or the whole transaction is refused as kConflict: this is how a
  // writer that has lost its right is kept out.
  std::optional<std::int64_t> must_change = std::nullopt;
};
using Transaction = std::vector<Statement>;

// Of one statement: rows changed, and what RETURNING or SELECT gave.
struct Outcome {
  std::int64_t changed = 0;
  std::vector<Row> rows;
};

// Whose SQL it is, for the few statements that the two do not share (searching texts).
enum class Dialect : std::uint8_t { kSqlite, kPostgres };

class Store {
 public:
  virtual ~Store() = default;

  virtual Dialect dialect() const = 0;

  // All statements or none; on disk when answered. kConflict when a row count or a constraint is
  // not kept, kUnavailable when there is no room for it now, kTimeout when the answer took too
  // long: it may have been stored then.
  virtual Task<Result<std::vector<Outcome>>> write(Transaction transaction) = 0;
  // Sees every write that was answered before.
  virtual Task<Result<std::vector<Row>>> read(Statement statement) = 0;
};

}  // namespace pons::store
