#include <gmock/gmock.h>

#include "any_store_fixture.h"

namespace pons::store {
namespace {

TEST_P(AnyStoreTest, WhatWasAnsweredIsThereAfterItIsOpenedAgain) {
  open();
  ASSERT_TRUE(write({add_project("a"), add_project("b")}));
  EXPECT_EQ(count_projects(), 2);
  open();
  EXPECT_EQ(count_projects(), 2);
}

TEST_P(AnyStoreTest, AReadSeesEveryWriteThatWasAnsweredBefore) {
  open();
  for (int i = 0; i < 50; ++i) {
    const auto written = write({add_project(std::to_string(i))});
    ASSERT_TRUE(written) << written.error().describe();
    ASSERT_EQ(count_projects(), i + 1);
  }
}

TEST_P(AnyStoreTest, EveryKindOfValueComesBackAsItWas) {
  open();
  const auto rows =
      read("SELECT CAST($1 AS TEXT), $2, $3, $4",
           {std::string("t\xC3\xA4xt"), std::int64_t{-7}, Blob{std::string("\0\xFF", 2)}, Null()});
  ASSERT_TRUE(rows) << rows.error().describe();
  EXPECT_EQ((*rows)[0], (Row{std::string("t\xC3\xA4xt"), std::int64_t{-7},
                             Blob{std::string("\0\xFF", 2)}, Null()}));
}

TEST_P(AnyStoreTest, EmptyTextAndAnEmptyBlobAreNotNull) {
  open();
  const auto rows = read("SELECT $1 IS NULL, $2 IS NULL", {std::string(), Blob{}});
  ASSERT_TRUE(rows);
  EXPECT_EQ((*rows)[0], (Row{std::int64_t{0}, std::int64_t{0}}));
}

TEST_P(AnyStoreTest, ParametersAreTakenByTheirNumberAsPostgresqlDoes) {
  open();
  const auto rows = read("SELECT $2, $1, $2", {std::int64_t{1}, std::int64_t{2}});
  ASSERT_TRUE(rows) << rows.error().describe();
  EXPECT_EQ((*rows)[0], (Row{std::int64_t{2}, std::int64_t{1}, std::int64_t{2}}));
}

TEST_P(AnyStoreTest, AValueTooFewOrTooManyIsRefused) {
  open();
  EXPECT_EQ(read("SELECT $1, $2", {std::int64_t{1}}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(read("SELECT $1", {std::int64_t{1}, std::int64_t{2}}).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(read("SELECT $2", {std::int64_t{1}}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(read("SELECT ?", {std::int64_t{1}}).error().code, ErrorCode::kInvalid);
}

TEST_P(AnyStoreTest, ChangedAndReturnedRowsAreToldPerStatement) {
  open();
  const auto done =
      write({add_project("a"),
             add_project("b"),
             {.sql = "UPDATE projects SET created = $1 RETURNING id", .values = {std::int64_t{5}}},
             {.sql = "SELECT name FROM projects WHERE id = $1", .values = {std::string("b")}}});
  ASSERT_TRUE(done) << done.error().describe();
  EXPECT_EQ((*done)[0].changed, 1);
  EXPECT_EQ((*done)[2].changed, 2);
  EXPECT_EQ((*done)[2].rows.size(), 2U);
  EXPECT_EQ((*done)[3].changed, 0);
  EXPECT_EQ((*done)[3].rows[0][0], Value(std::string("b")));
}

TEST_P(AnyStoreTest, ATransactionWithOneBadStatementLeavesNothing) {
  open();
  ASSERT_TRUE(write({add_project("a")}));
  const auto refused = write({add_project("b"), add_project("a")});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_EQ(count_projects(), 1);
}

TEST_P(AnyStoreTest, AWriterThatLostItsRightIsRefusedWhole) {
  open();
  ASSERT_TRUE(write({add_project("lease")}));
  const Statement fence{.sql = "UPDATE projects SET created = 2 WHERE id = $1 AND created = $2",
                        .values = {std::string("lease"), std::int64_t{1}},
                        .must_change = 1};
  EXPECT_TRUE(write({fence, add_project("first")}));
  const auto late = write({fence, add_project("second")});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kConflict);
  EXPECT_EQ(count_projects(), 2);
}

TEST_P(AnyStoreTest, ARowOfAnUnknownProjectIsRefused) {
  open();
  const auto refused =
      write({{.sql = "INSERT INTO sandboxes (id, project_id, template, metadata, created) "
                     "VALUES ($1, $2, $3, $4, $5)",
              .values = {std::string("s"), std::string("nobody"), std::string(), std::string("{}"),
                         std::int64_t{1}}}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
}

// Many at once are committed together; each stands for itself.
TEST_P(AnyStoreTest, AmongManyWritersOnlyTheWrongOnesFail) {
  open();
  constexpr int kWriters = 200;
  int stored = 0, refused = 0, left = kWriters;
  const auto one = [](Store& store, Transaction transaction, int& good, int& bad, int& count,
                      linux::Loop& loop) -> Task<> {
    const auto done = co_await store.write(std::move(transaction));
    ++(done ? good : bad);
    if (--count == 0) loop.stop();
  };
  for (int i = 0; i < kWriters; ++i)
    loop_->spawn(one(store(),
                     {add_project(std::to_string(i)), add_project("x" + std::to_string(i / 2))},
                     stored, refused, left, *loop_));
  loop_->run();
  EXPECT_EQ(stored, kWriters / 2);
  EXPECT_EQ(refused, kWriters / 2);
  EXPECT_EQ(count_projects(), kWriters);
}

TEST_P(AnyStoreTest, ACallerWhoLeavesDoesNoHarm) {
  open();
  {
    linux::TaskGroup leaving(*loop_);
    const auto ask = [](Store& store, Transaction transaction) -> Task<> {
      (void)co_await store.write(std::move(transaction));
    };
    for (int i = 0; i < 20; ++i) leaving.spawn(ask(store(), {add_project(std::to_string(i))}));
  }
  EXPECT_TRUE(write({add_project("last")}));
  // Which of them is stored first is left to the store.
  while (count_projects() < 21) (void)run(*loop_, sleep(*loop_));
  EXPECT_EQ(count_projects(), 21);
}

// ---- what a statement may not do

TEST_P(AnyStoreTest, AStatementCannotLeaveItsTransactionOrItsFile) {
  open();
  for (const char* sql :
       {"COMMIT", "ROLLBACK", "BEGIN", "SAVEPOINT x", "RELEASE one", "ATTACH '/etc/passwd' AS x",
        "PRAGMA synchronous = OFF", "PRAGMA journal_mode = DELETE", "PRAGMA data_version = 1",
        "CREATE TABLE x (a TEXT)", "DROP TABLE projects",
        "CREATE TRIGGER t AFTER INSERT ON projects BEGIN DELETE FROM projects; END"}) {
    const auto refused = write({add_project("a"), {.sql = sql, .values = {}}});
    ASSERT_FALSE(refused) << sql;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalid) << sql << refused.error().describe();
    EXPECT_FALSE(read(sql)) << sql;
  }
  const std::string stolen = directory_ + "/stolen";
  for (const std::string& sql : {std::string("VACUUM"), "VACUUM INTO '" + stolen + "'"}) {
    EXPECT_FALSE(write({{.sql = sql, .values = {}}})) << sql;
    EXPECT_FALSE(read(sql)) << sql;
  }
  EXPECT_FALSE(std::filesystem::exists(stolen));
  EXPECT_EQ(count_projects(), 0);
}

TEST_P(AnyStoreTest, OneTextIsOneStatement) {
  open();
  EXPECT_EQ(
      write({{.sql = "DELETE FROM projects; DELETE FROM api_keys", .values = {}}}).error().code,
      ErrorCode::kInvalid);
  EXPECT_EQ(write({{.sql = " -- nothing", .values = {}}}).error().code, ErrorCode::kInvalid);
  EXPECT_TRUE(write({{.sql = "DELETE FROM projects ", .values = {}}}));
}

TEST_P(AnyStoreTest, AReadChangesNothing) {
  open();
  EXPECT_FALSE(read("INSERT INTO projects (id, name, created) VALUES ('a', 'a', 1) RETURNING id"));
  EXPECT_EQ(count_projects(), 0);
}

TEST_P(AnyStoreTest, TextThatPostgresqlWouldRefuseIsRefused) {
  open();
  EXPECT_EQ(read("SELECT $1", {std::string("a\0b", 3)}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(read("SELECT $1", {std::string("\xFF")}).error().code, ErrorCode::kInvalid);
}

// ---- limits

TEST_P(AnyStoreTest, EveryInputHasALimit) {
  open({.queued = 10,
        .statements = 2,
        .sql_bytes = 200,
        .value_bytes = 10,
        .transaction_bytes = 1000,
        .rows = 3});
  EXPECT_EQ(write({add_project("a"), add_project("b"), add_project("c")}).error().code,
            ErrorCode::kLimit);
  EXPECT_EQ(read("SELECT " + std::string(200, ' ') + "1").error().code, ErrorCode::kLimit);
  EXPECT_EQ(read("SELECT $1", {std::string(11, 'x')}).error().code, ErrorCode::kLimit);
  EXPECT_EQ(read("SELECT $1", {Blob{std::string(11, 'x')}}).error().code, ErrorCode::kLimit);
  EXPECT_TRUE(read("SELECT 1 UNION SELECT 2 UNION SELECT 3"));
  EXPECT_EQ(read("SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4").error().code,
            ErrorCode::kLimit);
}

TEST_P(AnyStoreTest, AFullQueueRefusesAtOnce) {
  open({.queued = 0});
  EXPECT_EQ(write({add_project("a")}).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(read("SELECT 1").error().code, ErrorCode::kUnavailable);
}

TEST_P(AnyStoreTest, AReadThatWouldNeverEndIsEnded) {
  open({.read_time = std::chrono::milliseconds(50)});
  const auto endless = read(
      "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n");
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(count_projects(), 0) << "the next one is answered";
}

TEST_P(AnyStoreTest, ManyDifferentStatementsKeepWorking) {
  open();
  for (int i = 0; i < 600; ++i)
    ASSERT_TRUE(read("SELECT " + std::to_string(i) + ", count(*) FROM projects"));
}

INSTANTIATE_TEST_SUITE_P(Each, AnyStoreTest,
                         ::testing::Values(Dialect::kSqlite, Dialect::kPostgres),
                         name_of_parameter);

}  // namespace
}  // namespace pons::store
