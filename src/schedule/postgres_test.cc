// Two schedulers on one PostgreSQL, each with connections of its own, at the same moment.

#include <gtest/gtest.h>

#include "pons/store/postgres_store.h"
#include "pons/store_testing/postgres_server.h"
#include "schedule_fixture.h"

namespace pons::schedule {
namespace {

using namespace std::chrono;

class SharedDatabaseTest : public testing::Test {
 protected:
  // One of two brains.
  struct Node {
    Node(SharedDatabaseTest& test, std::string name)
        : store(test.open()),
          deployments(*store, test.clock_, test.zones_),
          starter(*test.loop_, test.made_),
          scheduler(*test.loop_, test.clock_, *store, test.zones_, deployments, starter,
                    {.owner = std::move(name)}) {}
    std::unique_ptr<store::PostgresStore> store;
    Deployments deployments;
    FakeStarter starter;
    Scheduler scheduler;
  };

  SharedDatabaseTest()
      : loop_(std::move(*linux::Loop::create())),
        database_(store::PostgresServer::shared().empty_database()),
        zones_(clock_) {
    clock_.set(utc(2026, 11, 16, 8, 30));
  }
  std::unique_ptr<store::PostgresStore> open() {
    auto opened = run(store::PostgresStore::open(
        *loop_,
        {.open = store::PostgresServer::shared().opener(*loop_, database_), .shown = database_}));
    if (!opened) std::abort();
    return std::move(*opened);
  }
  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }
  static Task<> pass(Scheduler& scheduler) {
    co_await scheduler.pass();
    co_await scheduler.settled(kNever);
  }
  static Task<bool> pass_both(Scheduler& one, Scheduler& two, linux::Loop& loop) {
    linux::TaskGroup group(loop);
    group.spawn(pass(one));
    group.spawn(pass(two));
    co_await group.wait_until_empty(kNever);
    co_return true;
  }

  std::unique_ptr<linux::Loop> loop_;
  SetClock clock_;
  std::string database_;
  Zones zones_;
  MadeSessions made_;
};

TEST_F(SharedDatabaseTest, EachTickOfEachDeploymentIsStartedByOneOfTwoBrains) {
  constexpr int kDeployments = 20;
  constexpr int kMinutes = 5;
  Node one(*this, "one");
  Node two(*this, "two");
  ASSERT_TRUE(run(one.store->write(
      {{.sql = "INSERT INTO projects (id, name, created) VALUES ('p', 'p', 1)", .values = {}}})));
  for (int i = 0; i < kDeployments; ++i) {
    const auto made = run(one.deployments.create(
        "p", {.name = "report",
              .agent = R"({"type":"agent","id":"agent_1","version":3})",
              .environment_id = "env_1",
              .initial_events = R"([{"type":"user.message","content":[]}])",
              .schedule = Schedule{.expression = "* * * * *", .timezone = "UTC"}}));
    ASSERT_TRUE(made) << made.error().describe();
  }
  for (int i = 0; i < kMinutes; ++i) {
    clock_.pass(minutes(1));
    run(pass_both(one.scheduler, two.scheduler, *loop_));
  }
  clock_.pass(seconds(20));
  run(pass_both(one.scheduler, two.scheduler, *loop_));
  EXPECT_EQ(made_.all.size(), static_cast<std::size_t>(kDeployments * kMinutes));
  EXPECT_EQ(made_.asked, made_.all.size()) << "nobody was asked twice";
  EXPECT_GT(two.starter.orders.size(), 0U) << "both take part";
}

}  // namespace
}  // namespace pons::schedule
