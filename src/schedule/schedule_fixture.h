#pragma once

// For tests of this folder: a store, a clock that shows what it is told, and somebody who makes
// sessions and remembers them.

#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "moment.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/schedule/deployments.h"
#include "pons/schedule/scheduler.h"
#include "pons/store/sqlite_store.h"

namespace pons::schedule {

class SetClock final : public Clock {
 public:
  TimePoint now() const override { return steady_; }
  WallTime wall() const override { return wall_; }
  void pass(Duration time) {  // as time does
    steady_ += time;
    wall_ += time;
  }
  void set(std::chrono::sys_seconds wall) { wall_ = wall; }  // as people and NTP do

 private:
  TimePoint steady_{std::chrono::hours(1)};
  WallTime wall_{};
};

inline std::chrono::sys_seconds utc(int y, unsigned m, unsigned d, int hour = 0, int minute = 0,
                                    int second = 0) {
  using namespace std::chrono;
  return sys_days(year(y) / month(m) / day(d)) + hours(hour) + minutes(minute) + seconds(second);
}

// The world outside: sessions by their ids, each made once. Outlives processes.
struct MadeSessions {
  std::map<std::string, Run> all;
  std::size_t asked = 0;
};

class FakeStarter final : public RunStarter {
 public:
  using Outcome = Result<std::variant<SessionId, RunError>>;
  FakeStarter(linux::Loop& loop, MadeSessions& made) : made_(made), hold_(loop) { hold_.set(); }

  Task<Outcome> start_run(RunOrder order) override {
    ++made_.asked;
    orders.push_back(order);
    if (hang_before) co_await hold_.wait(kNever);
    if (answer) co_return answer(order);
    made_.all.try_emplace(order.session.text(), order.run);
    if (hang_after) co_await hold_.wait(kNever);
    co_return order.session;
  }

  void hold(bool before, bool after) {
    hang_before = before;
    hang_after = after;
    hold_.reset();
  }

  std::function<Outcome(const RunOrder&)> answer;
  std::vector<RunOrder> orders;
  bool hang_before = false;
  bool hang_after = false;

 private:
  MadeSessions& made_;
  linux::Event hold_;
};

class ScheduleTest : public testing::Test {
 protected:
  ScheduleTest()
      : loop_(std::move(*linux::Loop::create())),
        directory_(make_directory()),
        store_(open(*loop_, directory_)) {
    EXPECT_TRUE(run(store_->write(
        {{.sql = "INSERT INTO projects (id, name, created) VALUES ('p', 'p', 1), ('q', 'q', 1)",
          .values = {}}})));
    clock_.set(utc(2026, 11, 16, 8, 30));
  }
  ~ScheduleTest() override {
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  static std::string make_directory() {
    char name[] = "/tmp/pons-schedule-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    return name;
  }
  static std::unique_ptr<store::SqliteStore> open(linux::Loop& loop, const std::string& directory) {
    auto opened = store::SqliteStore::open(loop, {.path = directory + "/pons.db", .shown = ""});
    if (!opened) std::abort();
    return std::move(*opened);
  }

  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }

  static DeploymentSpec spec(std::optional<Schedule> schedule = std::nullopt) {
    return {.name = "report",
            .agent = R"({"type":"agent","id":"agent_1","version":3})",
            .environment_id = "env_1",
            .initial_events = R"([{"type":"user.message","content":[]}])",
            .schedule = std::move(schedule)};
  }
  static Schedule daily(std::string expression = "0 9 * * *", std::string timezone = "UTC") {
    return {.expression = std::move(expression), .timezone = std::move(timezone)};
  }
  Deployment make(DeploymentSpec wanted) {
    auto made = run(deployments_.create("p", std::move(wanted)));
    if (!made) ADD_FAILURE() << made.error().describe();
    return *made;
  }

  // A process with a scheduler.
  struct Process {
    Process(ScheduleTest& test, std::string owner)
        : starter(*test.loop_, test.made_),
          scheduler(*test.loop_, test.clock_, *test.store_, test.zones_, test.deployments_, starter,
                    {.owner = std::move(owner)}) {}
    FakeStarter starter;
    Scheduler scheduler;
  };
  std::unique_ptr<Process> process(std::string owner = "one") {
    return std::make_unique<Process>(*this, std::move(owner));
  }
  static Task<bool> pass_and_settle(Scheduler& scheduler) {
    co_await scheduler.pass();
    co_await scheduler.settled(kNever);
    co_return true;
  }
  void pass(Process& process) { run(pass_and_settle(process.scheduler)); }
  // Begins and does not wait for what it has begun.
  void begin_pass(Process& process) { run(process.scheduler.pass()); }
  void at(std::chrono::sys_seconds wall, Process& process) {
    go_to(wall);
    pass(process);
  }
  // Time passes until then.
  void go_to(std::chrono::sys_seconds wall) { clock_.pass(WallTime(wall) - clock_.wall()); }

  std::vector<schedule::Run> runs(std::string deployment) {
    auto page =
        run(deployments_.list_runs({.project = "p", .deployment = deployment, .limit = 1'000}));
    if (!page) ADD_FAILURE() << page.error().describe();
    return page->items;
  }
  Deployment find(const std::string& id) { return *run(deployments_.find("p", id)); }
  std::vector<Miss> misses(const std::string& id) {
    return *run(deployments_.list_misses("p", id));
  }

  std::unique_ptr<linux::Loop> loop_;
  std::string directory_;
  std::unique_ptr<store::SqliteStore> store_;
  SetClock clock_;
  Zones zones_{clock_};
  Deployments deployments_{*store_, clock_, zones_};
  MadeSessions made_;
};

}  // namespace pons::schedule
