#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/store/store.h"

// Everything that is in one store, put into another that has nothing: how an installation moves
// from SQLite to PostgreSQL, and back. Nobody else may use either meanwhile.

namespace pons::store {

struct CopiedTable {
  std::string name;
  std::int64_t rows = 0;
  std::string digest;  // of all rows, in whatever order they come
};

struct CopyProgress {
  std::string what;  // "copying sessions", "checking sessions"
  std::int64_t done = 0;
  std::int64_t total = 0;  // rows of all tables, each once copied and once checked
};

struct CopyOptions {
  std::function<void(const CopyProgress&)> on_progress = {};
  // What is derived from the rows and has no place in both, such as words to search for.
  std::function<Task<Result<void>>(Store& to)> finish = {};
};

// One of the two is PostgreSQL, whose catalogue says what tables there are. kConflict: the target
// has something in it. A target whose copy broke off is a target whose copy broke off until it is
// copied to again, which begins anew (is_unfinished_copy). In the end all rows are read from the
// target and compared.
Task<Result<std::vector<CopiedTable>>> copy_store(Store& from, Store& to, CopyOptions options);

// Nobody should work with it.
Task<Result<bool>> is_unfinished_copy(Store& store);

}  // namespace pons::store
