#include "pons/session/store_log.h"

#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "pons/base/text.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/store/postgres_store.h"
#include "pons/store/sqlite_store.h"
#include "pons/store_testing/postgres_server.h"
#include "story.h"

namespace pons::session {
namespace {

class SetClock final : public Clock {
 public:
  TimePoint now() const override { return time; }
  WallTime wall() const override { return WallTime(std::chrono::milliseconds(now_ms)); }
  std::int64_t now_ms = 1'000'000;
  TimePoint time{std::chrono::hours(1)};
};

class StoreLogTest : public testing::TestWithParam<store::Dialect> {
 protected:
  StoreLogTest() : loop_(std::move(*linux::Loop::create())) {
    char name[] = "/tmp/pons-session-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    if (GetParam() == store::Dialect::kPostgres)
      database_ = store::PostgresServer::shared().empty_database();
    open({});
    EXPECT_TRUE(run(store_->write(
        {{.sql = "INSERT INTO projects (id, name, created) VALUES ('p', 'p', 1), ('q', 'q', 1)",
          .values = {}}})));
  }
  ~StoreLogTest() override {
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string file() const { return directory_ + "/pons.db"; }
  void open(store::StoreLimits limits) {
    store_.reset();
    if (GetParam() == store::Dialect::kSqlite) {
      auto opened =
          store::SqliteStore::open(*loop_, {.path = file(), .shown = "", .limits = limits});
      ASSERT_TRUE(opened) << opened.error().describe();
      store_ = std::move(*opened);
    } else {
      auto opened = run(store::PostgresStore::open(
          *loop_, {.open = store::PostgresServer::shared().opener(*loop_, database_),
                   .shown = database_,
                   .limits = limits}));
      ASSERT_TRUE(opened) << opened.error().describe();
      store_ = std::move(*opened);
    }
    one_ = std::make_unique<StoreLog>(*store_, clock_, "one");
    two_ = std::make_unique<StoreLog>(*store_, clock_, "two");
  }
  // As another program would.
  void drop_events() {
    constexpr const char* kDrop = "DROP TABLE session_events";
    if (GetParam() == store::Dialect::kPostgres)
      return store::PostgresServer::shared().execute(database_, kDrop);
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &database), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(database, kDrop, nullptr, nullptr, nullptr), SQLITE_OK);
    ASSERT_EQ(sqlite3_close(database), SQLITE_OK);
  }
  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }

  static Summary summary_of(const std::string& id, const Story& story, std::string project = "p") {
    return {.id = id,
            .project = std::move(project),
            .agent = "default",
            .parent = "",
            .title = "t",
            .status = status_of(story.state),
            .head = story.state.head,
            .created_ms = 5,
            .updated_ms = 5,
            .usage = story.state.usage};
  }
  Lease create(const std::string& id, const Story& story) {
    const auto lease = run(one_->create(summary_of(id, story), story.events));
    EXPECT_TRUE(lease) << lease.error().describe();
    return lease.value_or(Lease{});
  }
  static Batch batch_of(const Lease& lease, const Story& story, Seq after) {
    Batch batch{.lease = lease, .events = {}, .summary = summary_of(lease.session, story)};
    for (const StoredEvent& stored : story.events)
      if (stored.seq > after) batch.events.push_back(stored);
    return batch;
  }
  std::int64_t count(const std::string& what) {
    return store::integer_of(
               run(store_->read({.sql = "SELECT count(*) FROM " + what, .values = {}})).value()[0],
               0)
        .value();
  }

  SetClock clock_;
  std::string directory_;
  std::unique_ptr<linux::Loop> loop_;
  std::string database_;  // of PostgreSQL
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<StoreLog> one_;
  std::unique_ptr<StoreLog> two_;
};

TEST_P(StoreLogTest, AProjectHasNoMoreSessionsThanItMayHaveAndAgentsOfAgentsDoNotCount) {
  ASSERT_TRUE(run(store_->write(
      {{.sql = "UPDATE projects SET sessions_max = 1 WHERE id = 'p'", .values = {}}})));
  Story story;
  create("a", story);
  const auto more = run(one_->create(summary_of("b", story), story.events));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::kLimit);
  EXPECT_EQ(run(one_->create(summary_of("a", story), story.events)).error().code,
            ErrorCode::kConflict)
      << "that it is there is the better answer";
  Summary child = summary_of("c", story);
  child.parent = "a";
  EXPECT_TRUE(run(one_->create(child, story.events)));
  EXPECT_TRUE(run(one_->create(summary_of("d", story, "q"), story.events)));
  EXPECT_EQ(count("sessions"), 3);
}

TEST_P(StoreLogTest, WhichCallWantedASessionIsOnRecordAndStays) {
  Story story;
  create("a", story);
  Summary child = summary_of("c", story);
  child.parent = "a";
  child.parent_call = 7;
  const auto lease = run(one_->create(child, story.events));
  ASSERT_TRUE(lease);
  story.say("hi");
  ASSERT_TRUE(run(one_->append(batch_of(*lease, story, child.head))));
  const Summary found = run(one_->find("c")).value();
  EXPECT_EQ(found.parent_call, 7);
  EXPECT_EQ(found.head, story.state.head) << "no column took another's place";
  EXPECT_EQ(run(one_->find("a")).value().parent_call, 0);
}

TEST_P(StoreLogTest, WhatIsAppendedIsReadBack) {
  Story story;
  story.say("hi");
  const Lease lease = create("s", story);
  const Seq before = story.state.head;
  story.call({{"sandbox_provision", kTask}});
  story.bind(0, "box");
  ASSERT_TRUE(run(one_->append(batch_of(lease, story, before))));
  EXPECT_EQ(run(one_->read("s", 0, 1'000)).value(), story.events);
  EXPECT_EQ(run(one_->read("s", 2, 1)).value().at(0), story.events.at(2));
  EXPECT_TRUE(run(one_->read("s", story.state.head, 10)).value().empty());
  const Summary found = run(one_->find("s")).value();
  EXPECT_EQ(found.head, story.state.head);
  EXPECT_EQ(found.status, Status::kRunning);
  EXPECT_EQ(run(one_->find("none")).error().code, ErrorCode::kNotFound);
}

TEST_P(StoreLogTest, AnIdIsTakenOnceAndAProjectMustBeThere) {
  create("s", Story());
  EXPECT_EQ(run(two_->create(summary_of("s", Story()), Story().events)).error().code,
            ErrorCode::kConflict);
  EXPECT_EQ(run(one_->create(summary_of("x", Story(), "none"), Story().events)).error().code,
            ErrorCode::kConflict);
  EXPECT_EQ(count("session_events"), 1) << "nothing of those that were refused";
}

TEST_P(StoreLogTest, AnOldEpochStoresNothing) {
  Story story;
  story.say("hi");
  const Lease old = create("s", story);
  EXPECT_EQ(run(two_->take("s", Take::kUnlessAtHome)).error().code, ErrorCode::kConflict)
      << "it lives";
  clock_.now_ms += 31'000;
  const Lease now = run(two_->take("s", Take::kUnlessAtHome)).value();
  EXPECT_EQ(now.epoch, old.epoch + 1);
  EXPECT_EQ(now.project, "p");
  const Seq before = story.state.head;
  story.answer(kHello);
  Batch batch = batch_of(old, story, before);
  batch.blobs = {{.digest = "d", .bytes = "b"}};
  batch.chores = {{.id = "c", .project = "p", .session = "s", .kind = "k", .what = "w"}};
  EXPECT_EQ(run(one_->append(batch)).error().code, ErrorCode::kConflict);
  EXPECT_EQ(count("session_events"), before);
  EXPECT_EQ(count("session_blobs"), 0);
  EXPECT_EQ(count("session_chores"), 0);
  EXPECT_TRUE(run(two_->append(batch_of(now, story, before))));
}

TEST_P(StoreLogTest, AnAppendThatDoesNotFollowTheHeadStoresNothing) {
  Story story;
  const Lease lease = create("s", story);
  const Seq before = story.state.head;
  story.say("hi");
  const Batch batch = batch_of(lease, story, before);
  ASSERT_TRUE(run(one_->append(batch)));
  EXPECT_EQ(run(one_->append(batch)).error().code, ErrorCode::kConflict) << "a second time";
  Batch gap = batch;
  for (StoredEvent& stored : gap.events) stored.seq += 10;
  EXPECT_EQ(run(one_->append(gap)).error().code, ErrorCode::kConflict);
  EXPECT_EQ(count("session_events"), story.state.head);
}

TEST_P(StoreLogTest, AMessageComesOnceEvenIfNobodyRemembersIt) {
  Story story;
  const Lease lease = create("s", story);
  story.say("hi", "key");
  ASSERT_TRUE(run(one_->append(batch_of(lease, story, 1))));
  const Seq before = story.state.head;
  story.say("hi again", "key");
  EXPECT_EQ(run(one_->append(batch_of(lease, story, before))).error().code, ErrorCode::kConflict);
  Story other;
  other.say("hi", "key");
  create("t", other);  // another session's key is another
}

TEST_P(StoreLogTest, AStepOfAnySizeIsOneCommit) {
  Story story;
  const Lease lease = create("s", story);
  story.say("hi");
  std::vector<std::pair<std::string, std::string>> calls(900, {"none", "{}"});
  story.call(calls);
  ASSERT_GT(story.state.head, 1'800);
  const auto appended = run(one_->append(batch_of(lease, story, 1)));
  ASSERT_TRUE(appended) << appended.error().describe();
  EXPECT_EQ(run(one_->read("s", 0, 5'000)).value(), story.events);
}

TEST_P(StoreLogTest, MoreThanTheStoreGivesAtOnceIsReadInPieces) {
  Story story;
  for (int i = 0; i < 40; ++i) story.say(std::string(10'000, 'x'));
  create("s", story);
  open({.row_bytes = 64 << 10});
  std::vector<StoredEvent> all;
  for (;;) {
    auto page = run(one_->read("s", static_cast<Seq>(all.size()), 500));
    ASSERT_TRUE(page) << page.error().describe();
    if (page->empty()) break;
    std::ranges::move(*page, std::back_inserter(all));
  }
  EXPECT_EQ(all, story.events);
}

TEST_P(StoreLogTest, ATransactionThatIsTooLargeIsRefusedAndNothingOfItIsStored) {
  Story story;
  const Lease lease = create("s", story);
  story.say(std::string(2 << 20, 'x'));
  EXPECT_EQ(run(one_->append(batch_of(lease, story, 1))).error().code, ErrorCode::kLimit);
  EXPECT_EQ(count("session_events"), 1);
}

TEST_P(StoreLogTest, BlobsAreStoredOnceAndReadWhole) {
  Story story;
  const Lease lease = create("s", story);
  const std::string bytes(1'300'000, 'b');
  for (int i = 0; i < 2; ++i) {
    const Seq before = story.state.head;
    story.say("m");
    Batch batch = batch_of(lease, story, before);
    batch.blobs = {{.digest = "large", .bytes = bytes}, {.digest = "empty", .bytes = ""}};
    ASSERT_TRUE(run(one_->append(batch)));
  }
  EXPECT_EQ(count("session_blobs"), 4) << "three parts and one";
  EXPECT_EQ(run(one_->read_blob("p", "large")).value(), bytes);
  EXPECT_EQ(run(one_->read_blob("p", "empty")).value(), "");
  EXPECT_EQ(run(one_->read_blob("q", "large")).error().code, ErrorCode::kNotFound);
}

TEST_P(StoreLogTest, ChoresStayUntilTheyAreDone) {
  Story story;
  const Lease lease = create("s", story);
  story.say("m");
  Batch batch = batch_of(lease, story, 1);
  for (const char* id : {"a", "b"})
    batch.chores.push_back({.id = id, .project = "p", .session = "s", .kind = "k", .what = "w"});
  ASSERT_TRUE(run(one_->append(batch)));
  EXPECT_EQ(run(two_->list_chores(10)).value().size(), 2U);
  EXPECT_EQ(run(two_->list_chores(1)).value().at(0).id, "a");
  ASSERT_TRUE(run(two_->finish_chores({"a"})));
  ASSERT_TRUE(run(two_->finish_chores({"a", "none"})));
  EXPECT_EQ(run(one_->list_chores(10)).value().at(0).id, "b");
}

TEST_P(StoreLogTest, OrphansAreThoseAtWorkThatNoLivingProcessHas) {
  Story idle;
  create("idle", idle);
  Story working;
  working.say("hi");
  create("working", working);
  Story waiting;
  waiting.say("hi");
  waiting.call({{"ask_human", R"({"question":"?"})"}});
  create("waiting", waiting);
  EXPECT_EQ(run(one_->list_orphans("", 100)).value(), std::vector<std::string>{"working"})
      << "it was started again: what it had is its own";
  EXPECT_TRUE(run(two_->list_orphans("", 100)).value().empty());
  clock_.now_ms += 20'000;
  ASSERT_TRUE(run(one_->renew()));
  clock_.now_ms += 20'000;
  EXPECT_TRUE(run(two_->list_orphans("", 100)).value().empty()) << "it said that it lives";
  EXPECT_TRUE(run(two_->take("waiting", Take::kUnlessAtHome)))
      << "who waits for a person is anybody's";
  EXPECT_TRUE(run(two_->take("idle", Take::kUnlessAtHome)));
  clock_.now_ms += 31'000;
  EXPECT_EQ(run(two_->list_orphans("", 100)).value(), std::vector<std::string>{"working"});
}

TEST_P(StoreLogTest, OrphansAreListedPageByPage) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    Story working;
    working.say("hi");
    create(ids.emplace_back(fmt::format("s{}", i)), working);
  }
  std::vector<std::string> found;
  for (std::string after;; after = found.back()) {
    const auto page = run(one_->list_orphans(after, 2));
    ASSERT_TRUE(page) << page.error().describe();
    found.insert(found.end(), page->begin(), page->end());
    if (page->size() < 2) break;
  }
  EXPECT_EQ(found, ids);
}

TEST_P(StoreLogTest, AnArchivedSessionTakesNothingMore) {
  Story story;
  const Lease lease = create("s", story);
  Story working;
  working.say("hi");
  create("w", working);
  EXPECT_EQ(run(one_->archive("w", 9, Farewell::kSaid)).error().code, ErrorCode::kConflict);
  const auto said = run(one_->archive("s", 9, Farewell::kSaid)).value();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(run(one_->read("s", story.state.head, 10)).value(), said) << "it is behind all else";
  EXPECT_EQ(said[0].seq, story.state.head + 1);
  EXPECT_TRUE(std::holds_alternative<Archived>(said[0].event));
  EXPECT_EQ(run(one_->find("s")).value().head, said[0].seq);
  EXPECT_EQ(run(one_->archive("s", 10, Farewell::kSaid)).error().code, ErrorCode::kConflict);
  story.say("hi");
  EXPECT_EQ(run(one_->append(batch_of(lease, story, 1))).error().code, ErrorCode::kConflict);
  EXPECT_EQ(run(one_->take("s", Take::kUnlessAtHome)).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(run(one_->find("s")).value().archived_ms, 9);
}

TEST_P(StoreLogTest, ListsArePagedNewestFirst) {
  for (int i = 0; i < 5; ++i) {
    Summary summary = summary_of("s" + std::to_string(i), Story());
    summary.created_ms = i / 2;  // some at the same time
    ASSERT_TRUE(run(one_->create(summary, Story().events)));
  }
  ASSERT_TRUE(run(one_->create(summary_of("other", Story(), "q"), Story().events)));
  ASSERT_TRUE(run(one_->archive("s1", 1, Farewell::kUnsaid)));
  std::vector<std::string> seen;
  std::string before;
  for (;;) {
    const auto page = run(one_->list({.project = "p", .before = before, .limit = 2})).value();
    if (page.empty()) break;
    for (const Summary& summary : page) seen.push_back(summary.id);
    before = page.back().id;
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"s4", "s3", "s2", "s0"}));
  EXPECT_EQ(run(one_->list({.project = "p", .with_archived = true})).value().size(), 5U);
  EXPECT_TRUE(run(one_->list({.project = "none"})).value().empty());
}

// Shown by taking the events away: whoever needs them for a list now fails.
TEST_P(StoreLogTest, ListsNeverTouchEvents) {
  create("s", Story());
  store_.reset();
  drop_events();
  open({});
  EXPECT_EQ(run(one_->list({.project = "p"})).value().size(), 1U);
  EXPECT_TRUE(run(one_->find("s")));
  EXPECT_TRUE(run(one_->list_orphans("", 100)));
  EXPECT_FALSE(run(one_->read("s", 0, 1)));
}

TEST_P(StoreLogTest, ADamagedEventIsRefusedAndNotGuessed) {
  create("s", Story());
  for (const char* change : {"body = '[]'", "type = 'none'", "at = -1"}) {
    ASSERT_TRUE(run(store_->write(
        {{.sql = std::string("UPDATE session_events SET ") + change, .values = {}}})));
    EXPECT_EQ(run(one_->read("s", 0, 10)).error().code, ErrorCode::kIo) << change;
  }
}

// ---- several processes on one store

class QuietBell final : public store::Bell {
 public:
  void ring(std::string topic) override { rung.push_back(std::move(topic)); }
  void listen(Listener) override {}
  bool is_open() const override { return true; }
  std::vector<std::string> rung;
};

// One whose next write takes a while, or fails.
class TroubledStore final : public store::Store {
 public:
  TroubledStore(store::Store& store, SetClock& clock) : store_(store), clock_(clock) {}
  store::Dialect dialect() const override { return store_.dialect(); }
  Task<Result<std::vector<store::Outcome>>> write(store::Transaction transaction) override {
    clock_.time += delay;
    clock_.now_ms += std::chrono::duration_cast<std::chrono::milliseconds>(delay).count();
    if (fails) co_return make_error(ErrorCode::kUnavailable, "write", "the store is away");
    co_return co_await store_.write(std::move(transaction));
  }
  Task<Result<std::vector<store::Row>>> read(store::Statement statement) override {
    return store_.read(std::move(statement));
  }
  Duration delay{0};
  bool fails = false;

 private:
  store::Store& store_;
  SetClock& clock_;
};

class SharedLogTest : public StoreLogTest {
 protected:
  SharedLogTest() : here_(log_of("here")), there_(log_of("there")) {
    for (int i = 0; i < 3; ++i) {
      pass(std::chrono::seconds(40));
      for (StoreLog* log : {here_.get(), there_.get()}) EXPECT_TRUE(run(log->renew()));
    }
  }
  std::unique_ptr<StoreLog> log_of(std::string owner) {
    return std::make_unique<StoreLog>(
        *store_, clock_,
        StoreLogOptions{
            .owner = std::move(owner), .lease = std::chrono::minutes(1), .bell = &bell_});
  }
  void pass(Duration time) {
    clock_.time += time;
    clock_.now_ms += std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  }
  // The other one lives on, and says so.
  void pass_without_here(Duration time) {
    for (; time > Duration(0); time -= std::chrono::seconds(20)) {
      pass(std::chrono::seconds(20));
      ASSERT_TRUE(run(there_->renew()));
    }
  }
  static std::vector<Event> message(std::string text) {
    std::vector<Event> events;
    events.emplace_back(UserMessage{.content = R"([{"type":"text","text":")" + text + "\"}]"});
    return events;
  }

  QuietBell bell_;
  std::unique_ptr<StoreLog> here_;
  std::unique_ptr<StoreLog> there_;
};

TEST_P(SharedLogTest, WhatADeadProcessLeavesIsClaimedByOneOfTheOthers) {
  for (int i = 0; i < 7; ++i) {
    Story story;
    story.say("hi");
    ASSERT_TRUE(run(here_->create(summary_of("s" + std::to_string(i), story), story.events)));
  }
  create("idle", Story());
  EXPECT_TRUE(run(there_->claim(10)).value().empty()) << "their process lives";
  pass_without_here(std::chrono::minutes(3));
  std::set<std::string> claimed;
  for (;;) {
    const auto some = run(there_->claim(3)).value();
    if (some.empty()) break;
    EXPECT_LE(some.size(), 3U);
    for (const Lease& lease : some) {
      EXPECT_EQ(lease.epoch, 2);
      EXPECT_TRUE(claimed.insert(lease.session).second);
    }
  }
  EXPECT_EQ(claimed.size(), 7U);
}

TEST_P(SharedLogTest, WhoWasNotHeardItselfTakesNothingFromOthers) {
  Story story;
  story.say("hi");
  ASSERT_TRUE(run(here_->create(summary_of("s", story), story.events)));
  pass(std::chrono::minutes(5));  // the store was away, for both
  ASSERT_TRUE(run(there_->renew()));
  EXPECT_TRUE(run(there_->claim(10)).value().empty());
  EXPECT_TRUE(run(there_->list_orphans("", 100)).value().empty());
  EXPECT_EQ(run(there_->take("s", Take::kAnyway)).error().code, ErrorCode::kConflict);
  pass_without_here(std::chrono::seconds(80));
  EXPECT_EQ(run(there_->claim(10)).value().size(), 1U) << "the other had time to come back";
}

// Away for less than a lease, so that its own renewals have no gap: the other, whose line came back
// later, has not said anything yet.
TEST_P(SharedLogTest, WhoSawTheStoreAwayLeavesTheOthersTimeToComeBack) {
  Story story;
  story.say("hi");
  ASSERT_TRUE(run(here_->create(summary_of("s", story), story.events)));
  TroubledStore troubled(*store_, clock_);
  StoreLog log(troubled, clock_,
               {.owner = "there", .lease = std::chrono::minutes(1), .bell = &bell_});
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(run(log.renew()));
    ASSERT_TRUE(run(here_->renew()));
    pass(std::chrono::seconds(20));
  }
  for (const bool fails : {true, false}) {
    troubled.fails = fails;
    troubled.delay = std::chrono::seconds(30);
    EXPECT_EQ(run(log.renew()).has_value(), !fails);
    troubled.fails = false;
    troubled.delay = Duration(0);
    pass(std::chrono::seconds(20));
    ASSERT_TRUE(run(log.renew()));
    EXPECT_TRUE(run(log.claim(10)).value().empty()) << fails;
  }
  for (int i = 0; i < 3; ++i) {
    pass(std::chrono::seconds(20));
    ASSERT_TRUE(run(log.renew()));
  }
  EXPECT_EQ(run(log.claim(10)).value().size(), 1U) << "who is silent for longer is gone";
}

TEST_P(SharedLogTest, AnIdleSessionStaysWithItsSandboxesWhileTheirNodeLives) {
  Summary summary = summary_of("s", Story());
  summary.home = "here";
  ASSERT_TRUE(run(here_->create(summary, Story().events)));
  EXPECT_EQ(run(there_->take("s", Take::kUnlessAtHome)).error().code, ErrorCode::kConflict);
  const Lease lease = run(here_->take("s", Take::kUnlessAtHome)).value();
  Story story;
  story.add(Interrupted{});
  ASSERT_TRUE(run(here_->append(batch_of(lease, story, 1))));
  EXPECT_TRUE(run(there_->take("s", Take::kUnlessAtHome))) << "it has none any more";
}

TEST_P(SharedLogTest, WhoMustMayTakeItFromItsHome) {
  Summary summary = summary_of("s", Story());
  summary.home = "here";
  ASSERT_TRUE(run(here_->create(summary, Story().events)));
  EXPECT_TRUE(run(there_->take("s", Take::kAnyway)));
}

TEST_P(SharedLogTest, WhatIsHandedOverIsTakenOnceAndReplied) {
  Story story;
  const auto lease = run(here_->create(summary_of("s", story), story.events));
  ASSERT_TRUE(lease);
  const auto id = run(there_->hand_over("s", message("hello")));
  ASSERT_TRUE(id) << id.error().describe();
  EXPECT_EQ(bell_.rung.back(), "i:s");
  EXPECT_FALSE(run(there_->find_reply(*id)).value().has_value());
  EXPECT_TRUE(run(there_->list_inputs(10)).value().empty()) << "the session is another's";
  const auto waiting = run(here_->list_inputs(10)).value();
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].events, message("hello"));
  story.say("hello");
  Batch batch = batch_of(*lease, story, 1);
  batch.taken = {{.id = *id, .seqs = {2}}};
  ASSERT_TRUE(run(here_->append(batch)));
  EXPECT_EQ(bell_.rung.back(), "s:s");
  EXPECT_EQ(run(there_->find_reply(*id)).value()->value(), std::vector<Seq>{2});
  EXPECT_TRUE(run(here_->list_inputs(10)).value().empty());
  const Seq head = story.state.head;
  story.say("again");
  batch = batch_of(*lease, story, head);
  batch.taken = {{.id = *id, .seqs = {head + 1}}};
  EXPECT_EQ(run(here_->append(batch)).error().code, ErrorCode::kConflict) << "a second time";
  EXPECT_EQ(count("session_events"), head);
}

TEST_P(SharedLogTest, LongInputsAreReadAsManyAsFitTogether) {
  ASSERT_TRUE(run(here_->create(summary_of("s", Story()), Story().events)));
  const std::string text(std::size_t{300} << 10, 'x');
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run(there_->hand_over("s", message(text))));
  here_.reset();
  there_.reset();
  open({.row_bytes = std::size_t{700} << 10});
  here_ = log_of("here");
  EXPECT_GE(run(here_->list_inputs(200)).value().size(), 1U);
}

TEST_P(SharedLogTest, ARefusalReachesWhoHandedItOver) {
  ASSERT_TRUE(run(here_->create(summary_of("s", Story()), Story().events)));
  const auto id = run(there_->hand_over("s", message("hello"))).value();
  ASSERT_TRUE(
      run(here_->reply(id, "s", make_error(ErrorCode::kInvalid, "add", "nobody waits for it"))));
  ASSERT_TRUE(run(here_->reply(id, "s", std::vector<Seq>{7}))) << "too late";
  const auto reply = run(there_->find_reply(id)).value();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error().code, ErrorCode::kInvalid);
  EXPECT_EQ(reply->error().message, "nobody waits for it");
  EXPECT_EQ(run(there_->hand_over("none", message("x"))).error().code, ErrorCode::kLimit);
  pass(std::chrono::hours(1));
  ASSERT_TRUE(run(here_->forget_replies()));
  EXPECT_EQ(run(there_->find_reply(id)).error().code, ErrorCode::kNotFound);
}

TEST_P(SharedLogTest, InputsOfADeadProcessAreTheOthers) {
  ASSERT_TRUE(run(here_->create(summary_of("s", Story()), Story().events)));
  ASSERT_TRUE(run(there_->hand_over("s", message("hello"))));
  pass_without_here(std::chrono::minutes(3));
  EXPECT_EQ(run(there_->list_inputs(10)).value().size(), 1U);
}

TEST_P(SharedLogTest, ChoresAreThoseOfTheirNode) {
  Story story;
  const auto lease = run(here_->create(summary_of("s", story), story.events));
  story.say("hi");
  Batch batch = batch_of(*lease, story, 1);
  batch.chores = {{.id = "a",
                   .project = "p",
                   .session = "s",
                   .kind = "destroy_sandbox",
                   .what = "w",
                   .node = "here"},
                  {.id = "b",
                   .project = "p",
                   .session = "s",
                   .kind = "stop_session",
                   .what = "w",
                   .node = "here"}};
  ASSERT_TRUE(run(here_->append(batch)));
  EXPECT_EQ(run(here_->list_chores(10)).value().size(), 2U);
  EXPECT_TRUE(run(there_->list_chores(10)).value().empty());
  pass_without_here(std::chrono::minutes(3));
  const auto left = run(there_->list_chores(10)).value();
  ASSERT_EQ(left.size(), 1U) << "a sandbox can only be ended where it is";
  EXPECT_EQ(left[0].id, "b");
}

TEST_P(SharedLogTest, HeadsTellFollowersWhatTheyHaveMissed) {
  Story story;
  story.say("hi");
  ASSERT_TRUE(run(here_->create(summary_of("s", story), story.events)));
  const auto heads = run(there_->read_heads({"s", "none"})).value();
  EXPECT_EQ(heads, (std::map<std::string, Seq>{{"s", story.state.head}}));
}

// Ours is wrong by an hour: the leases of others are not ours to judge by it.
class ServersClockTest : public SharedLogTest {};
TEST_P(ServersClockTest, LeasesAreByIt) {
  const auto options = [&](std::string owner) {
    return StoreLogOptions{
        .owner = std::move(owner), .lease = std::chrono::minutes(1), .uses_servers_clock = true};
  };
  StoreLog one(*store_, clock_, options("one"));
  StoreLog two(*store_, clock_, options("two"));
  Story story;
  story.say("hi");
  ASSERT_TRUE(run(one.create(summary_of("s", story), story.events)));
  pass(std::chrono::hours(1));
  EXPECT_TRUE(run(two.claim(10)).value().empty());
  EXPECT_EQ(run(two.take("s", Take::kAnyway)).error().code, ErrorCode::kConflict);
  ASSERT_TRUE(run(store_->write({{.sql = "UPDATE sessions SET lease_until = 1", .values = {}}})));
  EXPECT_EQ(run(two.claim(10)).value().size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Postgres, ServersClockTest, testing::Values(store::Dialect::kPostgres));
INSTANTIATE_TEST_SUITE_P(Each, SharedLogTest,
                         testing::Values(store::Dialect::kSqlite, store::Dialect::kPostgres),
                         [](const auto& info) {
                           return info.param == store::Dialect::kSqlite ? "Sqlite" : "Postgres";
                         });

INSTANTIATE_TEST_SUITE_P(Each, StoreLogTest,
                         testing::Values(store::Dialect::kSqlite, store::Dialect::kPostgres),
                         [](const auto& info) {
                           return info.param == store::Dialect::kSqlite ? "Sqlite" : "Postgres";
                         });

}  // namespace
}  // namespace pons::session
