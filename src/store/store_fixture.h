#pragma once

// For tests of this folder: a directory that goes away, and a loop that runs until a task is done.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/store/sqlite_store.h"

namespace pons::store {

template <class T>
T run(linux::Loop& loop, Task<T> task) {
  return linux::run_to_end(loop, std::move(task));
}

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() : loop_(std::move(*linux::Loop::create())) {
    char name[] = "/tmp/pons-store-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    file_ = directory_ + "/pons.db";
  }
  ~StoreTest() override {
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  void open(StoreLimits limits = {}) {
    store_.reset();
    auto opened = SqliteStore::open(*loop_, {.path = file_, .shown = "", .limits = limits});
    ASSERT_TRUE(opened) << opened.error().describe();
    store_ = std::move(*opened);
  }
  // Why it cannot be opened.
  Error refusal() {
    store_.reset();
    auto opened = SqliteStore::open(*loop_, {.path = file_, .shown = ""});
    EXPECT_FALSE(opened);
    return opened ? Error{} : opened.error();
  }
  virtual Store& store() { return *store_; }
  Result<std::vector<Outcome>> write(Transaction transaction) {
    return run(*loop_, store().write(std::move(transaction)));
  }
  Result<std::vector<Row>> read(std::string sql, std::vector<Value> values = {}) {
    return run(*loop_, store().read({.sql = std::move(sql), .values = std::move(values)}));
  }
  std::int64_t count_projects() {
    const auto rows = read("SELECT count(*) FROM projects");
    return rows ? std::get<std::int64_t>((*rows)[0][0]) : -1;
  }

  static Statement add_project(std::string id, std::string name) {
    return {.sql = "INSERT INTO projects (id, name, created) VALUES ($1, $2, $3)",
            .values = {std::move(id), std::move(name), std::int64_t{1}}};
  }
  static Statement add_project(const std::string& id) { return add_project(id, id); }

  std::string directory_;
  std::string file_;
  std::unique_ptr<linux::Loop> loop_;
  std::unique_ptr<SqliteStore> store_;
};

}  // namespace pons::store
