#pragma once

#include <memory>
#include <string>

#include "pons/linux/loop.h"
#include "pons/store/limits.h"
#include "pons/store/store.h"

namespace pons::store {

struct StoreOptions {
  std::string path;   // may be relative; the working directory must not change then
  std::string shown;  // the file's name in messages; empty: the path
  StoreLimits limits = {};
};

// One SQLite file. A thread writes: it takes every transaction that waits, runs each so that it can
// fail alone, and syncs once for all of them. A second thread reads on a connection of its own.
// Belongs to its loop; its destructor waits until every write that was asked for is done.
class SqliteStore final : public Store {
 public:
  // Creates the file, or checks it and brings its tables up to date. The error names the file and
  // what to do when it is damaged, cut off, somebody else's, or made by a newer program.
  static Result<std::unique_ptr<SqliteStore>> open(linux::Loop& loop, StoreOptions options);
  ~SqliteStore() override;

  Dialect dialect() const override { return Dialect::kSqlite; }
  Task<Result<std::vector<Outcome>>> write(Transaction transaction) override;
  Task<Result<std::vector<Row>>> read(Statement statement) override;

  // Writes a copy of this moment to `path`, which must not exist. Others write and read meanwhile;
  // one copy at a time.
  Task<Result<void>> copy_to(std::string path);

 private:
  struct Threads;
  SqliteStore(linux::Loop& loop, StoreOptions options, std::unique_ptr<Threads> threads);

  linux::Loop& loop_;
  StoreOptions options_;
  std::unique_ptr<Threads> threads_;
};

}  // namespace pons::store
