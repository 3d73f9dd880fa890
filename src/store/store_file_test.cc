#include "pons/store/store_file.h"

#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "migrations.h"
#include "open_file.h"
#include "pons/linux/fd.h"
#include "store_fixture.h"

namespace pons::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class StoreFileTest : public StoreTest {
 protected:
  // A closed store with so many projects, all in the one file.
  void make_store(int projects) {
    open();
    Transaction transaction;
    for (int i = 0; i < projects; ++i)
      transaction.push_back(
          add_project(std::to_string(i), std::string(500, 'n') + std::to_string(i)));
    ASSERT_TRUE(write(std::move(transaction)));
    store_.reset();
    ASSERT_FALSE(std::filesystem::exists(file_ + "-wal"));
  }
  void overwrite(std::streamoff at, const std::string& bytes) {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file << bytes;
  }
  // As another program would, without our rules.
  void change(const char* sql) {
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &raw), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(raw, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(raw);
    sqlite3_close(raw);
  }
  void expect_refused(const char* why) {
    EXPECT_THAT(refusal().message, AllOf(HasSubstr(file_), HasSubstr(why)));
    const auto checked = check_store_file(file_);
    ASSERT_FALSE(checked);
    EXPECT_THAT(checked.error().message, AllOf(HasSubstr(file_), HasSubstr(why)));
  }
};

TEST_F(StoreFileTest, ANewFileIsForItsOwnerOnly) {
  open();
  for (const char* suffix : {"", "-wal", "-shm"}) {
    struct stat info{};
    ASSERT_EQ(stat((file_ + suffix).c_str(), &info), 0) << suffix;
    EXPECT_EQ(info.st_mode & 0777, 0600U) << suffix;
  }
}

TEST_F(StoreFileTest, AWholeFileIsFoundWholeAndNothingIsWrittenBesideIt) {
  make_store(100);
  const auto info = check_store_file(file_);
  ASSERT_TRUE(info) << info.error().describe();
  EXPECT_EQ(info->migrations, static_cast<std::int64_t>(migrations(Dialect::kSqlite).size()));
  EXPECT_EQ(info->bytes, std::filesystem::file_size(file_));
  EXPECT_FALSE(std::filesystem::exists(file_ + "-wal"));
  EXPECT_FALSE(std::filesystem::exists(file_ + "-shm"));
}

// What was answered is on disk: of one of the two settings less, and a loss of power may take it.
TEST_F(StoreFileTest, EveryCommitIsSynchronousAndAheadOfTheFile) {
  auto database = open_or_create(file_, file_, migrations(Dialect::kSqlite));
  ASSERT_TRUE(database) << database.error().describe();
  const auto setting = [&](const char* pragma) {
    const auto rows = database->ask({.sql = std::string("PRAGMA ") + pragma, .values = {}});
    return rows && rows->size() == 1 ? rows->front().front() : Value();
  };
  EXPECT_EQ(setting("journal_mode"), Value(std::string("wal")));
  constexpr std::int64_t kFull = 2;
  EXPECT_EQ(setting("synchronous"), Value(kFull));
}

TEST_F(StoreFileTest, EveryTableOfProjectsSaysWhoseItsRowsAre) {
  auto database = open_or_create(file_, file_, migrations(Dialect::kSqlite));
  ASSERT_TRUE(database) << database.error().describe();
  const auto rows = database->ask(
      {.sql = "SELECT name FROM sqlite_master AS t WHERE type = 'table' AND name NOT LIKE "
              "'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'memory\\_search%' ESCAPE '\\' AND NOT "
              "EXISTS (SELECT 1 FROM pragma_table_info(t.name) WHERE name = 'project_id') "
              "ORDER BY name",
       .values = {}});
  ASSERT_TRUE(rows) << rows.error().describe();
  std::vector<std::string> without;
  for (const Row& row : *rows) without.push_back(text_of(row, 0).value_or(""));
  // Those of the installation itself.
  EXPECT_EQ(without,
            (std::vector<std::string>{"model_journals", "nodes", "projects", "schema_migrations"}));
}

TEST_F(StoreFileTest, AnOddNameIsAName) {
  std::filesystem::create_directory(directory_ + "/a?b#c%41");
  file_ = directory_ + "/a?b#c%41/p?mode=memory.db";
  make_store(1);
  EXPECT_TRUE(check_store_file(file_));
}

TEST_F(StoreFileTest, ARelativePathStaysOne) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  file_ = "pons.db";
  make_store(1);
  open();
  EXPECT_EQ(count_projects(), 1);
  EXPECT_TRUE(run(*loop_, store_->copy_to("copy.db")));
  EXPECT_TRUE(check_store_file("copy.db"));
  store_.reset();
  std::filesystem::current_path(before);
}

TEST_F(StoreFileTest, GarbageIsRefused) {
  std::ofstream(file_) << std::string(10'000, 'g');
  expect_refused("is no database");
}

TEST_F(StoreFileTest, AFileOfAFewBytesIsRefused) {
  std::ofstream(file_) << "SQLite format 3";
  expect_refused("is no database");
}

TEST_F(StoreFileTest, AnEmptyFileIsOneThatWasCutOff) {
  std::ofstream{file_};
  expect_refused("is empty");
}

TEST_F(StoreFileTest, ATruncatedFileIsRefusedWhereverItWasCut) {
  make_store(400);
  const auto whole = std::filesystem::file_size(file_);
  ASSERT_GT(whole, 100'000U);
  for (const auto size : {whole - 1, whole - 4096, whole / 2, std::uintmax_t{8192},
                          std::uintmax_t{4096}, std::uintmax_t{100}}) {
    std::filesystem::remove(file_);
    make_store(400);
    std::filesystem::resize_file(file_, size);
    const auto why = refusal();
    EXPECT_THAT(why.message, HasSubstr("pons restore")) << size << ": " << why.describe();
    EXPECT_FALSE(check_store_file(file_)) << size;
  }
}

TEST_F(StoreFileTest, ADestroyedPageIsFound) {
  make_store(400);
  overwrite(5 * 4096, std::string(4096, '\xA5'));
  expect_refused("is damaged");
}

TEST_F(StoreFileTest, ADestroyedBeginningIsFound) {
  make_store(10);
  overwrite(0, std::string(16, 'x'));
  expect_refused("is no database");
}

TEST_F(StoreFileTest, ADatabaseOfAnotherProgramIsLeftAlone) {
  change("CREATE TABLE recipes (name TEXT)");
  const auto before = std::filesystem::file_size(file_);
  expect_refused("another program");
  EXPECT_EQ(std::filesystem::file_size(file_), before);
}

TEST_F(StoreFileTest, AFileOfANewerProgramIsRefused) {
  make_store(1);
  change("INSERT INTO schema_migrations VALUES (9999, 'from_the_future', 'd', 1)");
  expect_refused("newer Pons (migration 9999_from_the_future");
}

TEST_F(StoreFileTest, AFileMadeByAnotherTextOfAMigrationIsRefused) {
  make_store(1);
  change("UPDATE schema_migrations SET digest = 'other' WHERE number = 1");
  expect_refused("another text of migration 0001_projects_and_keys");
}

TEST_F(StoreFileTest, AnOlderFileIsBroughtUpToDateAndKeepsItsRows) {
  const auto older = migrations(Dialect::kSqlite).subspan(0, 1);
  {
    auto database = open_or_create(file_, file_, older);
    ASSERT_TRUE(database) << database.error().describe();
    ASSERT_TRUE(database->run(add_project("kept"), {.rows = 1, .bytes = 100}));
  }
  const auto checked = check_store_file(file_);
  ASSERT_TRUE(checked) << checked.error().describe();
  EXPECT_EQ(checked->migrations, 1);
  open();
  EXPECT_EQ(count_projects(), 1);
  EXPECT_TRUE(read("SELECT count(*) FROM sandboxes"));
}

TEST_F(StoreFileTest, AMigrationThatFailsLeavesNothingOfItself) {
  const std::array<Migration, 2> broken = {
      migrations(Dialect::kSqlite)[0],
      Migration{.number = 2, .name = "broken", .sql = "CREATE TABLE half (a TEXT); NONSENSE"}};
  EXPECT_FALSE(open_or_create(file_, file_, broken));
  EXPECT_FALSE(std::filesystem::exists(file_)) << "a file of the right name is always whole";
  make_store(1);
  std::filesystem::remove(file_);
  {
    ASSERT_TRUE(open_or_create(file_, file_, migrations(Dialect::kSqlite).subspan(0, 1)));
  }
  EXPECT_FALSE(open_or_create(file_, file_, broken));
  open();
  EXPECT_FALSE(read("SELECT a FROM half"));
}

TEST_F(StoreFileTest, AJournalWithoutItsFileIsNotThrownAway) {
  std::ofstream(file_ + "-wal") << "somebody's transactions";
  EXPECT_THAT(refusal().message, HasSubstr("-wal is there"));
  EXPECT_TRUE(std::filesystem::exists(file_ + "-wal"));
}

TEST_F(StoreFileTest, ALinkOrAFolderIsNoStore) {
  std::filesystem::create_symlink("/etc/passwd", file_);
  expect_refused("is no file");
  std::filesystem::remove(file_);
  std::filesystem::create_directory(file_);
  expect_refused("is no file");
}

TEST_F(StoreFileTest, DamageMetWhileRunningEndsWritingAndSaysSo) {
  make_store(900);
  open();
  // Behind the back of the running store, and behind what it looked at when it was opened.
  const auto pages = std::filesystem::file_size(file_) / 4096;
  for (std::uintmax_t page = 1; page < pages; ++page)
    overwrite(static_cast<std::streamoff>(page * 4096), std::string(4096, '\xA5'));
  const auto met = read("SELECT name FROM projects");
  ASSERT_FALSE(met);
  EXPECT_THAT(met.error().message, AllOf(HasSubstr(file_), HasSubstr("is damaged")));
  const auto later =
      write({{.sql = "DELETE FROM sandboxes WHERE id = $1", .values = {std::string("x")}}});
  ASSERT_FALSE(later);
  EXPECT_THAT(later.error().message, HasSubstr("nothing is written any more"));
}

// ---- restoring

class RestoreTest : public StoreFileTest {
 protected:
  // A backup with one project; the store itself has three.
  RestoreTest() : backup_(directory_ + "/backup.db") {
    make_store(1);
    std::filesystem::rename(file_, backup_);
    make_store(3);
  }
  Result<std::string> restore() { return restore_store_file(backup_, file_, geteuid()); }
  std::int64_t projects_of(const std::string& file) {
    file_ = file;
    open();
    return count_projects();
  }
  std::string backup_;
};

TEST_F(RestoreTest, TheBackupTakesThePlaceAndTheFormerStoreIsKept) {
  const auto kept = restore();
  ASSERT_TRUE(kept) << kept.error().describe();
  EXPECT_EQ(projects_of(file_), 1);
  EXPECT_EQ(projects_of(*kept), 3);
  EXPECT_EQ(projects_of(backup_), 1);
}

TEST_F(RestoreTest, TwiceInOneSecondKeepsBoth) {
  const auto first = restore(), second = restore();
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
}

TEST_F(RestoreTest, WhereThereIsNoStoreNothingIsKept) {
  std::filesystem::remove(file_);
  const auto kept = restore();
  ASSERT_TRUE(kept) << kept.error().describe();
  EXPECT_EQ(*kept, "");
  EXPECT_EQ(projects_of(file_), 1);
}

TEST_F(RestoreTest, AJournalStaysWithTheFileItBelongsTo) {
  // A store that was killed: its last transaction is in the journal only.
  open();
  ASSERT_TRUE(write({add_project("in the journal")}));
  const std::string killed = directory_ + "/killed.db";
  for (const char* suffix : {"", "-wal"})
    std::filesystem::copy_file(file_ + suffix, killed + suffix);
  store_.reset();
  const auto kept = restore_store_file(backup_, killed, geteuid());
  ASSERT_TRUE(kept) << kept.error().describe();
  EXPECT_FALSE(std::filesystem::exists(killed + "-wal"));
  EXPECT_EQ(projects_of(killed), 1);
  EXPECT_EQ(projects_of(*kept), 4);
}

TEST_F(RestoreTest, ABadBackupChangesNothing) {
  std::filesystem::resize_file(backup_, std::filesystem::file_size(backup_) - 4096);
  EXPECT_FALSE(restore());
  EXPECT_EQ(projects_of(file_), 3);
}

TEST_F(RestoreTest, ALinkThatARoleLeftBehindLeadsNowhere) {
  const std::string victim = directory_ + "/victim";
  std::ofstream(victim) << "untouched";
  std::filesystem::create_symlink(victim, file_ + ".restored");
  ASSERT_TRUE(restore());
  EXPECT_EQ(linux::read_file(victim).value_or(""), "untouched");
  EXPECT_EQ(projects_of(file_), 1);
}

}  // namespace
}  // namespace pons::store
