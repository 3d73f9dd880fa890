#pragma once

// For tests of this folder: a store and a book over files that go away, and a clock set by hand.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "pons/budget/book.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/store/sqlite_store.h"

namespace pons::budget {

class WallClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  WallTime wall() const override { return WallTime(std::chrono::milliseconds(now_ms)); }
  std::int64_t now_ms = 1'700'000'000'000;
};

class BudgetTest : public ::testing::Test {
 protected:
  BudgetTest() : loop_(std::move(*linux::Loop::create())) {
    char name[] = "/tmp/pons-budget-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
  }
  ~BudgetTest() override {
    book_.reset();
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }
  void open_store() {
    auto opened = store::SqliteStore::open(
        *loop_, {.path = directory_ + "/pons.db", .shown = "", .limits = {.rows = 1'000'000}});
    ASSERT_TRUE(opened) << opened.error().describe();
    store_ = std::move(*opened);
  }
  std::string journal_directory() const { return directory_ + "/journal"; }
  Result<std::unique_ptr<Book>> try_open() {
    book_.reset();
    if (store_ == nullptr) open_store();
    options_.directory = journal_directory();
    return run(Book::open(*loop_, *store_, clock_, *Prices::load(kPrices), options_));
  }
  void open() {
    auto opened = try_open();
    ASSERT_TRUE(opened) << opened.error().describe();
    book_ = std::move(*opened);
  }
  // A key of the project "default"; money in nano-dollars.
  std::string add_key(std::vector<Limit> limits, std::string parent = {},
                      KeyKind kind = KeyKind::kUser) {
    auto made = run(book_->keys().create({.project_id = "default",
                                          .parent_id = std::move(parent),
                                          .kind = kind,
                                          .name = "test",
                                          .limits = std::move(limits)}));
    EXPECT_TRUE(made) << made.error().describe();
    return made ? made->key.id : std::string();
  }
  Result<Call> begin(const std::string& key, std::int64_t output = 90) {
    return book_->begin_call({.node_id = key,
                              .model = "m",
                              .provider = "p",
                              .estimate = {.input = 10, .output = output}});
  }
  std::int64_t money(const std::string& key) {
    return book_->used(key, Window::kTotal)[What::kMoney];
  }
  std::vector<store::Row> rows(std::string sql) {
    auto read = run(store_->read({.sql = std::move(sql), .values = {}}));
    EXPECT_TRUE(read) << read.error().describe();
    return read ? std::move(*read) : std::vector<store::Row>();
  }
  std::int64_t number(std::string sql) {
    return std::get<std::int64_t>(rows(std::move(sql))[0][0]);
  }

  // A nano-dollar for each token.
  static constexpr const char* kPrices =
      R"({"models": {"m": {"input": "0.001", "output": "0.001"}}})";

  std::string directory_;
  WallClock clock_;
  BookOptions options_;
  std::unique_ptr<linux::Loop> loop_;
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<Book> book_;
};

}  // namespace pons::budget
