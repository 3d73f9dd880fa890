#include "pons/store/postgres_store.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <set>

#include "any_store_fixture.h"
#include "migrations.h"

namespace pons::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PostgresStoreTest : public StoreTest {
 protected:
  PostgresStoreTest() : server_(PostgresServer::shared()), database_(server_.empty_database()) {}

  PostgresOptions options(StoreLimits limits = {}) {
    return {.open = server_.opener(*loop_, database_), .shown = "db", .limits = limits};
  }
  void open(StoreLimits limits = {}) {
    postgres_.reset();
    auto opened = run(*loop_, PostgresStore::open(*loop_, options(limits)));
    ASSERT_TRUE(opened) << opened.error().describe();
    postgres_ = std::move(*opened);
  }
  Error refusal() {
    auto opened = run(*loop_, PostgresStore::open(*loop_, options()));
    EXPECT_FALSE(opened);
    return opened ? Error{} : opened.error();
  }
  Store& store() override { return *postgres_; }

  PostgresServer& server_;
  std::string database_;
  std::unique_ptr<PostgresStore> postgres_;
};

TEST_F(PostgresStoreTest, AGuardCountsWhatReturningGives) {
  open();
  ASSERT_TRUE(write({add_project("a"), add_project("b")}));
  Statement both{.sql = "UPDATE projects SET created = 7 RETURNING id, created",
                 .values = {},
                 .must_change = 2};
  auto done = write({both});
  ASSERT_TRUE(done) << done.error().describe();
  EXPECT_EQ(done->front().changed, 2);
  EXPECT_EQ(done->front().rows.size(), 2U);
  EXPECT_EQ(done->front().rows[0][1], Value(std::int64_t{7}));
  both.must_change = 3;
  const auto refused = write({both});
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr("3 rows were to change, and 2 would have"));
  Statement none{
      .sql = "DELETE FROM projects WHERE id = 'x' RETURNING id", .values = {}, .must_change = 0};
  done = write({none});
  ASSERT_TRUE(done) << done.error().describe();
  EXPECT_TRUE(done->front().rows.empty());
}

TEST_F(PostgresStoreTest, AStatementThatFailsLeavesNoneThatIsOnlyHalfPrepared) {
  open();
  ASSERT_TRUE(write({add_project("a")}));
  const Statement later{.sql = "UPDATE projects SET created = 3 WHERE id = 'a'", .values = {}};
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(write({add_project("a"), later}).error().code, ErrorCode::kConflict);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(write({later}));
}

TEST_F(PostgresStoreTest, TransactionsThatWaitForEachOtherBothSucceed) {
  open();
  ASSERT_TRUE(write({add_project("a"), add_project("b")}));
  const auto touch = [](const char* id) {
    return Statement{.sql = "UPDATE projects SET created = created + 1 WHERE id = $1",
                     .values = {std::string(id)},
                     .must_change = 1};
  };
  constexpr int kEach = 40;
  int left = 2 * kEach, failed = 0;
  const auto one = [](Store& store, Transaction all, int& count, int& bad,
                      linux::Loop& loop) -> Task<> {
    if (!co_await store.write(std::move(all))) ++bad;
    if (--count == 0) loop.stop();
  };
  for (int i = 0; i < kEach; ++i) {
    loop_->spawn(one(store(), {touch("a"), touch("b")}, left, failed, *loop_));
    loop_->spawn(one(store(), {touch("b"), touch("a")}, left, failed, *loop_));
  }
  loop_->run();
  const auto rows = read("SELECT created FROM projects ORDER BY id");
  ASSERT_TRUE(rows);
  EXPECT_EQ(std::get<std::int64_t>((*rows)[0][0]), 1 + 2 * kEach - failed);
  EXPECT_EQ(std::get<std::int64_t>((*rows)[1][0]), 1 + 2 * kEach - failed);
}

// ---- opening

TEST_F(PostgresStoreTest, ManyThatOpenAtOnceMakeTheTablesOnce) {
  constexpr int kProcesses = 6;
  int left = kProcesses;
  std::vector<std::unique_ptr<PostgresStore>> stores;
  const auto one = [](linux::Loop& loop, PostgresOptions with, auto& out, int& count) -> Task<> {
    auto opened = co_await PostgresStore::open(loop, std::move(with));
    EXPECT_TRUE(opened) << opened.error().describe();
    if (opened) out.push_back(std::move(*opened));
    if (--count == 0) loop.stop();
  };
  for (int i = 0; i < kProcesses; ++i) loop_->spawn(one(*loop_, options(), stores, left));
  loop_->run();
  ASSERT_EQ(stores.size(), static_cast<std::size_t>(kProcesses));
  open();
  const auto rows = read("SELECT count(*) FROM schema_migrations");
  EXPECT_EQ((*rows)[0][0], Value(static_cast<std::int64_t>(migrations(Dialect::kPostgres).size())));
}

TEST_F(PostgresStoreTest, ADatabaseOfANewerProgramIsRefused) {
  open();
  server_.execute(database_,
                  "INSERT INTO schema_migrations VALUES (9999, 'from_the_future', 'd', 1)");
  EXPECT_THAT(refusal().message, AllOf(HasSubstr("db"), HasSubstr("newer Pons (migration 9999_")));
}

TEST_F(PostgresStoreTest, ADatabaseMadeByAnotherTextIsRefused) {
  open();
  server_.execute(database_, "UPDATE schema_migrations SET digest = 'other' WHERE number = 1");
  EXPECT_THAT(refusal().message, HasSubstr("another text of migration 0001_projects_and_keys"));
}

TEST_F(PostgresStoreTest, SomebodyElsesTablesAreLeftAlone) {
  server_.execute(database_,
                  "CREATE TABLE sessions (mine TEXT); INSERT INTO sessions VALUES ('x')");
  EXPECT_THAT(refusal().message,
              AllOf(HasSubstr("\"sessions\" already exists"), HasSubstr("a database of its own")));
  server_.execute(database_, "SELECT mine FROM sessions");
}

TEST_F(PostgresStoreTest, AServerThatMayForgetIsRefused) {
  server_.execute(database_, "ALTER DATABASE " + database_ + " SET synchronous_commit = off");
  const Error error = refusal();
  server_.execute(database_, "ALTER DATABASE " + database_ + " RESET synchronous_commit");
  EXPECT_THAT(error.message, HasSubstr("synchronous_commit is off"));
}

TEST_F(PostgresStoreTest, ANameKeepsOthersOfTheSameNameOutUntilItsProcessIsGone) {
  auto alone = options();
  alone.name = "node_a";
  alone.connect_time = std::chrono::seconds(2);
  auto first = run(*loop_, PostgresStore::open(*loop_, alone));
  ASSERT_TRUE(first) << first.error().describe();
  const auto second = run(*loop_, PostgresStore::open(*loop_, alone));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_THAT(second.error().message, HasSubstr("another Pons uses this database as node node_a"));
  auto other = options();
  other.name = "node_b";
  EXPECT_TRUE(run(*loop_, PostgresStore::open(*loop_, std::move(other)))) << "who has another name";
  first->reset();
  alone.connect_time = std::chrono::seconds(30);
  const auto third = run(*loop_, PostgresStore::open(*loop_, alone));
  EXPECT_TRUE(third) << third.error().describe();
}

// ---- the bell

// Topics that one of two who share the database hears of the other.
class BellTest : public PostgresStoreTest {
 protected:
  std::unique_ptr<PostgresStore> open_as(std::string name) {
    auto named = options();
    named.name = std::move(name);
    auto opened = run(*loop_, PostgresStore::open(*loop_, std::move(named)));
    EXPECT_TRUE(opened) << opened.error().describe();
    return std::move(*opened);
  }
  void hear_with(PostgresStore& store) {
    store.bell()->listen([this](std::string_view topic) { heard_.emplace_back(topic); });
  }
  static Task<Result<void>> wait_for(linux::Loop& loop, std::vector<std::string>& heard,
                                     std::string topic) {
    for (int i = 0; i < 2'000; ++i) {
      if (std::ranges::find(heard, topic) != heard.end()) co_return {};
      co_await loop.sleep_for(std::chrono::milliseconds(5));
    }
    co_return make_error(ErrorCode::kTimeout, "wait", topic + " was not heard");
  }
  bool hears(std::string topic) {
    return run(*loop_, wait_for(*loop_, heard_, std::move(topic))).has_value();
  }

  std::vector<std::string> heard_;
};

TEST_F(BellTest, OthersHearItAndWhoRingsDoesNot) {
  const auto one = open_as("one");
  const auto two = open_as("two");
  hear_with(*two);
  std::vector<std::string> own;
  one->bell()->listen([&](std::string_view topic) { own.emplace_back(topic); });
  one->bell()->ring("s:first");
  two->bell()->ring("s:second");
  EXPECT_TRUE(hears("s:first"));
  EXPECT_TRUE(run(*loop_, wait_for(*loop_, own, "s:second")));
  EXPECT_EQ(std::ranges::count(own, "s:first"), 0);
}

TEST_F(BellTest, ManyTopicsAtOnceAreFewWordsAndTooManyAreAnything) {
  const auto one = open_as("one");
  const auto two = open_as("two");
  hear_with(*two);
  for (int i = 0; i < 100; ++i) one->bell()->ring("s:same");
  one->bell()->ring("last");
  EXPECT_TRUE(hears("last"));
  EXPECT_LE(std::ranges::count(heard_, "s:same"), 2) << "they leave together";
  for (int i = 0; i < 1'000; ++i) one->bell()->ring("s:session-number-" + std::to_string(i));
  EXPECT_TRUE(hears(std::string(Bell::kAnything)));
}

TEST_F(BellTest, WhoseConnectionWasLostHearsThatAnythingMayHaveHappened) {
  const auto one = open_as("one");
  hear_with(*one);
  server_.execute("postgres",
                  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                  "WHERE query LIKE 'LISTEN%' AND datname = '" +
                      database_ + "'");
  EXPECT_TRUE(hears(std::string(Bell::kAnything)));
  EXPECT_TRUE(one->bell()->is_open());
}

TEST_F(PostgresStoreTest, NoServerIsAnErrorThatSaysSo) {
  auto lost = options();
  lost.open = [](TimePoint) -> Task<Result<std::unique_ptr<http::Transport>>> {
    co_return make_error(ErrorCode::kUnavailable, "connect", "nobody is there");
  };
  const auto opened = run(*loop_, PostgresStore::open(*loop_, std::move(lost)));
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, AllOf(HasSubstr("db"), HasSubstr("nobody is there")));
}

// ---- a server that goes away

// Writes numbered transactions of two rows until told to stop, and notes what it was answered.
struct Diary {
  bool goes_on = true;
  int running = 0;
  std::set<std::int64_t> stored;
  std::set<std::int64_t> unknown;
  std::set<std::int64_t> refused;
};

Task<> write_diary(Store& store, std::int64_t first, Diary& diary, linux::Loop& loop) {
  ++diary.running;
  for (std::int64_t number = first; diary.goes_on; ++number) {
    Transaction both;
    for (const char* half : {"a", "b"})
      both.push_back({.sql = "INSERT INTO projects (id, name, created) VALUES ($1, $1, $2)",
                      .values = {std::to_string(number) + half, number}});
    const auto done = co_await store.write(std::move(both));
    if (done)
      diary.stored.insert(number);
    else if (done.error().code == ErrorCode::kTimeout)
      diary.unknown.insert(number);
    else
      diary.refused.insert(number);
  }
  if (--diary.running == 0) loop.stop();
}

class PostgresRestartTest : public PostgresStoreTest, public testing::WithParamInterface<int> {};

TEST_P(PostgresRestartTest, NothingAnsweredIsLostAndNothingIsHalf) {
  open();
  Diary diary;
  const auto restart = [](linux::Loop& loop, PostgresServer& server, Diary& told,
                          int signal) -> Task<> {
    for (int round = 0; round < 3; ++round) {
      const std::size_t before = told.stored.size();
      while (told.stored.size() < before + 20)
        co_await loop.sleep_for(std::chrono::milliseconds(5));
      server.stop(signal);
      server.start();
    }
    const std::size_t before = told.stored.size();
    while (told.stored.size() < before + 20) co_await loop.sleep_for(std::chrono::milliseconds(5));
    told.goes_on = false;
  };
  for (std::int64_t i = 0; i < 12; ++i)
    loop_->spawn(write_diary(store(), i * 1'000'000, diary, *loop_));
  loop_->spawn(restart(*loop_, server_, diary, GetParam()));
  loop_->run();
  const auto rows = read("SELECT created, count(*) FROM projects GROUP BY created");
  ASSERT_TRUE(rows) << rows.error().describe();
  std::set<std::int64_t> found;
  for (const Row& row : *rows) {
    found.insert(std::get<std::int64_t>(row[0]));
    EXPECT_EQ(std::get<std::int64_t>(row[1]), 2) << "half of " << std::get<std::int64_t>(row[0]);
  }
  for (const std::int64_t number : diary.stored) EXPECT_TRUE(found.contains(number)) << number;
  for (const std::int64_t number : diary.refused) EXPECT_FALSE(found.contains(number)) << number;
  for (const std::int64_t number : found)
    EXPECT_TRUE(diary.stored.contains(number) || diary.unknown.contains(number)) << number;
}

INSTANTIATE_TEST_SUITE_P(By, PostgresRestartTest, testing::Values(SIGINT, SIGQUIT, SIGKILL));

TEST_F(PostgresStoreTest, WhileTheServerIsGoneEverybodyWaitsAndIsToldInTheEnd) {
  open({.answer_time = std::chrono::seconds(2)});
  ASSERT_TRUE(write({add_project("a")}));
  ASSERT_EQ(count_projects(), 1);
  server_.stop(SIGINT);
  // Connections that are lost already are not asked; one that is not may lose its question.
  auto refused = write({add_project("b")});
  if (!refused && refused.error().code == ErrorCode::kTimeout) refused = write({add_project("b")});
  const auto unread = read("SELECT 1");
  server_.start();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("db cannot be reached"));
  EXPECT_EQ(unread.error().code, ErrorCode::kUnavailable);
  // Whoever asks while it comes back is served when it is back.
  auto back = write({add_project("c")});
  while (!back && back.error().code == ErrorCode::kUnavailable) back = write({add_project("c")});
  EXPECT_TRUE(back) << back.error().describe();
}

TEST_F(PostgresStoreTest, WhatIsUnderWayCanBeWaitedFor) {
  open();
  {
    linux::TaskGroup leaving(*loop_);
    const auto ask = [](Store& to, Transaction transaction) -> Task<> {
      (void)co_await to.write(std::move(transaction));
    };
    for (int i = 0; i < 100; ++i) leaving.spawn(ask(store(), {add_project(std::to_string(i))}));
  }
  const auto finish = [](PostgresStore& asked) -> Task<Result<void>> {
    co_await asked.finish(kNever);
    co_return {};
  };
  ASSERT_TRUE(run(*loop_, finish(*postgres_)));
  open();
  EXPECT_EQ(count_projects(), 100);
}

}  // namespace
}  // namespace pons::store
