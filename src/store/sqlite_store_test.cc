#include "pons/store/sqlite_store.h"

#include <gtest/gtest.h>

#include "store_fixture.h"

namespace pons::store {
namespace {

using SqliteStoreTest = StoreTest;

TEST_F(SqliteStoreTest, WritesThatWereAskedForAreDoneBeforeItCloses) {
  open();
  linux::TaskGroup asking(*loop_);
  const auto ask = [](Store& store, Transaction transaction) -> Task<> {
    (void)co_await store.write(std::move(transaction));
  };
  for (int i = 0; i < 100; ++i) asking.spawn(ask(*store_, {add_project(std::to_string(i))}));
  asking.cancel_all();
  open();
  EXPECT_EQ(count_projects(), 100);
}

TEST_F(SqliteStoreTest, ACopyIsWholeWhileOthersWrite) {
  open();
  ASSERT_TRUE(write({add_project("a")}));
  linux::TaskGroup others(*loop_);
  const auto ask = [](Store& store, Transaction transaction) -> Task<> {
    (void)co_await store.write(std::move(transaction));
  };
  for (int i = 0; i < 50; ++i)
    others.spawn(
        ask(*store_, {add_project("p" + std::to_string(i)), add_project("q" + std::to_string(i))}));
  const std::string copy = directory_ + "/copy.db";
  const auto copied = run(*loop_, store_->copy_to(copy));
  ASSERT_TRUE(copied) << copied.error().describe();
  const auto again = run(*loop_, store_->copy_to(copy));
  EXPECT_FALSE(again) << "what is there is not written over";
  others.cancel_all();
  file_ = copy;
  open();
  EXPECT_EQ(count_projects() % 2, 1) << "no transaction is in it by half";
}

TEST_F(SqliteStoreTest, ACopyIntoNowhereFailsAndLeavesTheStoreAlone) {
  open();
  const auto refused = run(*loop_, store_->copy_to(directory_ + "/none/copy.db"));
  EXPECT_FALSE(refused);
  EXPECT_TRUE(write({add_project("a")}));
}

}  // namespace
}  // namespace pons::store
