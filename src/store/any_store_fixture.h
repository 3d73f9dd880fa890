#pragma once

// For tests of what every store promises: they run with each of them.

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "pons/store/postgres_store.h"
#include "pons/store_testing/postgres_server.h"
#include "store_fixture.h"

namespace pons::store {

class AnyStoreTest : public StoreTest, public ::testing::WithParamInterface<Dialect> {
 protected:
  void open(StoreLimits limits = {}) {
    if (GetParam() == Dialect::kSqlite) return StoreTest::open(limits);
    auto& server = PostgresServer::shared();
    if (database_.empty()) database_ = server.empty_database();
    postgres_.reset();
    auto opened = run(*loop_, PostgresStore::open(*loop_, {.open = server.opener(*loop_, database_),
                                                           .shown = database_,
                                                           .limits = limits}));
    ASSERT_TRUE(opened) << opened.error().describe();
    postgres_ = std::move(*opened);
  }
  Store& store() override {
    if (GetParam() == Dialect::kSqlite) return *store_;
    return *postgres_;
  }

  static Task<Result<void>> sleep(linux::Loop& loop) {
    co_await loop.sleep_for(std::chrono::milliseconds(5));
    co_return {};
  }

  std::string database_;
  std::unique_ptr<PostgresStore> postgres_;
};

inline std::string name_of_parameter(const ::testing::TestParamInfo<Dialect>& info) {
  return info.param == Dialect::kSqlite ? "Sqlite" : "Postgres";
}

}  // namespace pons::store
