#include "pons/store/copy_store.h"

#include <gmock/gmock.h>

#include "pons/store/postgres_store.h"
#include "pons/store/sqlite_store.h"
#include "pons/store_testing/postgres_server.h"
#include "store_fixture.h"
#include "table_shape.h"

namespace pons::store {
namespace {

using ::testing::HasSubstr;

// A store in a file with something in it, and an empty database.
class CopyStoreTest : public StoreTest {
 protected:
  CopyStoreTest() : server_(PostgresServer::shared()), database_(server_.empty_database()) {
    open();
    fill();
    auto opened = run(
        *loop_,
        PostgresStore::open(*loop_, {.open = server_.opener(*loop_, database_), .shown = "db"}));
    EXPECT_TRUE(opened) << opened.error().describe();
    postgres_ = std::move(*opened);
  }
  void fill() {
    Transaction all = {add_project("a"), add_project("b")};
    all.push_back({.sql = "INSERT INTO api_keys (id, project_id, name, hash, scopes, created, "
                          "revoked) VALUES ('k', 'a', 'é\n''', 'h', '', 1, NULL), "
                          "('l', 'b', '', 'i', '', 2, 3)",
                   .values = {}});
    for (std::int64_t i = 0; i < 5; ++i)
      all.push_back({.sql = "INSERT INTO session_blobs (project_id, digest, part, bytes) "
                            "VALUES ('a', 'd', $1, $2)",
                     .values = {i, Blob{std::string("\0\xff x", 4) + std::to_string(i)}}});
    for (std::int64_t i = 0; i < 3'000; ++i)
      all.push_back({.sql = "INSERT INTO session_events (session_id, seq, project_id, at, type, "
                            "body) VALUES ($1, $2, 'a', 1, 't', $3)",
                     .values = {"s" + std::to_string(i % 7), i, std::string(50, 'x')}});
    for (std::size_t begin = 0; begin < all.size(); begin += 900)
      ASSERT_TRUE(write(Transaction(
          all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(std::min(begin + 900, all.size())))));
  }
  Result<std::vector<CopiedTable>> copy(Store& from, Store& to, CopyOptions options = {}) {
    return run(*loop_, copy_store(from, to, std::move(options)));
  }
  std::vector<Row> rows(Store& store, const std::string& sql) {
    return run(*loop_, store.read({.sql = sql, .values = {}})).value();
  }
  std::int64_t count(Store& store, const std::string& table) {
    return integer_of(rows(store, "SELECT count(*) FROM " + table)[0], 0).value();
  }

  PostgresServer& server_;
  std::string database_;
  std::unique_ptr<PostgresStore> postgres_;
};

TEST_F(CopyStoreTest, EveryRowOfEveryTableIsThereAsItWas) {
  std::int64_t told = 0;
  const auto copied = copy(*store_, *postgres_, {.on_progress = [&](const CopyProgress& progress) {
    EXPECT_LE(progress.done, progress.total);
    told = progress.done;
  }});
  ASSERT_TRUE(copied) << copied.error().describe();
  EXPECT_EQ(told, 2 * (2 + 2 + 5 + 3'000)) << "each was copied, and read again";
  for (const char* sql :
       {"SELECT * FROM projects ORDER BY id", "SELECT * FROM api_keys ORDER BY id",
        "SELECT part, bytes FROM session_blobs ORDER BY part",
        "SELECT session_id, seq, body FROM session_events ORDER BY seq"})
    EXPECT_EQ(rows(*store_, sql), rows(*postgres_, sql)) << sql;
  EXPECT_FALSE(run(*loop_, is_unfinished_copy(*postgres_)).value());
}

TEST_F(CopyStoreTest, ATargetThatIsInUseIsLeftAlone) {
  ASSERT_TRUE(run(*loop_, postgres_->write({add_project("theirs")})));
  const auto refused = copy(*store_, *postgres_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr("table projects has 1 rows"));
  EXPECT_EQ(count(*postgres_, "projects"), 1);
  EXPECT_EQ(count(*postgres_, "session_events"), 0);
}

TEST_F(CopyStoreTest, ACopyThatBrokeOffIsKnownAsSuchAndBeginsAnew) {
  const auto broken = copy(*store_, *postgres_, {.finish = [](Store&) -> Task<Result<void>> {
    co_return make_error(ErrorCode::kIo, "finish", "it broke off");
  }});
  EXPECT_FALSE(broken);
  EXPECT_TRUE(run(*loop_, is_unfinished_copy(*postgres_)).value());
  EXPECT_EQ(count(*postgres_, "session_events"), 3'000);
  const auto again = copy(*store_, *postgres_);
  ASSERT_TRUE(again) << again.error().describe();
  EXPECT_EQ(count(*postgres_, "session_events"), 3'000);
  EXPECT_FALSE(run(*loop_, is_unfinished_copy(*postgres_)).value());
}

TEST_F(CopyStoreTest, TheWayBackEndsWhereItBegan) {
  ASSERT_TRUE(copy(*store_, *postgres_));
  auto back = SqliteStore::open(*loop_, {.path = directory_ + "/back.db", .shown = ""});
  ASSERT_TRUE(back);
  const auto copied = copy(*postgres_, **back);
  ASSERT_TRUE(copied) << copied.error().describe();
  for (const char* sql :
       {"SELECT * FROM projects ORDER BY id", "SELECT * FROM api_keys ORDER BY id",
        "SELECT part, bytes FROM session_blobs ORDER BY part"})
    EXPECT_EQ(rows(*store_, sql), rows(**back, sql)) << sql;
}

TEST(RowsDigest, SaysWhetherRowsAreTheSameWhateverTheirOrder) {
  const Row one = {std::int64_t{1}, std::string("ab"), Null{}};
  const Row other = {std::int64_t{1}, std::string("a"), std::string("b")};
  RowsDigest forward;
  forward.add(one);
  forward.add(other);
  RowsDigest backward;
  backward.add(other);
  backward.add(one);
  EXPECT_EQ(forward.text(), backward.text());
  RowsDigest twice;
  twice.add(one);
  twice.add(one);
  EXPECT_NE(forward.text(), twice.text());
  EXPECT_EQ(twice.rows(), 2);
}

}  // namespace
}  // namespace pons::store
