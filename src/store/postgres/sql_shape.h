#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/store/store.h"

namespace pons::store::postgres {

// What must be known of a statement before the server sees it.
struct SqlShape {
  std::size_t parameters = 0;  // the highest number behind a $
  bool changes = false;        // it is an INSERT, UPDATE or DELETE
  bool returns = false;        // it has a RETURNING
};

// kInvalid for anything but one SELECT, INSERT, UPDATE or DELETE, and for one whose parameters are
// not those of `values`. SQL is the program's own; this keeps mistakes out, not attackers.
Result<SqlShape> read_shape(const Statement& statement);

// A statement that fails by itself on the server unless it changes exactly so many rows: the
// decision needs no second trip there. Its first column is the number of rows; what RETURNING gave
// is behind it, and when no row was changed there is one of NULLs.
std::string guarded(const Statement& statement, const SqlShape& shape);

// How many rows it would have changed, by the message with which it failed.
std::optional<std::int64_t> rows_of_guard(std::string_view message);

}  // namespace pons::store::postgres
