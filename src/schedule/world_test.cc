// Schedulers in a world that is not kind to them: they die at any wait, writes fail before or after
// they are stored, the clock is set, people change and pause things. By seeds that replay:
// PONS_SCHEDULE_SEED=N schedule_test --gtest_filter=World.*

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "schedule_fixture.h"
#include "ticking.h"

namespace pons::schedule {
namespace {

using namespace std::chrono;

// Another store, some of whose answers are wrong or late.
class UnkindStore final : public store::Store {
 public:
  UnkindStore(store::Store& store, std::mt19937& chance) : store_(store), chance_(chance) {}
  store::Dialect dialect() const override { return store_.dialect(); }

  Task<Result<std::vector<store::Outcome>>> write(store::Transaction transaction) override {
    const unsigned fate = is_kind ? 9 : chance_() % 10;
    if (fate == 0) co_return make_error(ErrorCode::kUnavailable, "write", "no room");
    auto written = co_await store_.write(std::move(transaction));
    if (fate == 1) co_return make_error(ErrorCode::kTimeout, "write", "it took too long");
    co_return written;
  }
  Task<Result<std::vector<store::Row>>> read(store::Statement statement) override {
    if (!is_kind && chance_() % 20 == 0)
      co_return make_error(ErrorCode::kUnavailable, "read", "no answer");
    co_return co_await store_.read(std::move(statement));
  }
  bool is_kind = false;

 private:
  store::Store& store_;
  std::mt19937& chance_;
};

class World : public ScheduleTest {
 protected:
  struct Life {
    Life(World& world, std::string owner)
        : starter(*world.loop_, world.made_),
          scheduler(*world.loop_, world.clock_, world.unkind_, world.zones_, world.deployments_,
                    starter, {.owner = std::move(owner)}) {}
    FakeStarter starter;
    Scheduler scheduler;
  };

  unsigned pick(unsigned count) { return static_cast<unsigned>(chance_()) % count; }

  // One process does something, perhaps for the last time.
  void live(std::unique_ptr<Life>& life, const std::string& owner) {
    if (!life) life = std::make_unique<Life>(*this, owner);
    const unsigned fate = pick(8);
    if (fate == 0) life->starter.hold(true, false);
    if (fate == 1) life->starter.hold(false, true);
    life->starter.answer = nullptr;
    if (fate == 2)
      life->starter.answer = [](const RunOrder&) -> FakeStarter::Outcome {
        return make_error(ErrorCode::kUnavailable, "make session", "not now");
      };
    if (fate <= 1) {
      run(life->scheduler.pass());
      life.reset();  // dies, whatever it was doing
    } else if (life->starter.hang_before || life->starter.hang_after) {
      life.reset();
    } else {
      run(pass_and_settle(life->scheduler));
    }
  }

  void play(unsigned seed) {
    chance_.seed(seed);
    made_ = {};
    unkind_.is_kind = false;
    const sys_seconds begin = utc(2027, 3, 27, 20) + hours(pick(40'000));
    clock_.set(begin);
    Schedule schedule = daily(pick(2) == 0 ? "*/20 * * * *" : "10,40 2-4,9-23 * * *",
                              pick(2) == 0 ? "Europe/Berlin" : "America/New_York");
    if (pick(2) == 0) schedule.missed = Missed::kRunOnce;
    const std::string id = make(spec(schedule)).id;
    const Ticking ticking = *Ticking::read(schedule, zones_);
    std::unique_ptr<Life> lives[2];
    for (int step = 0; step < 25; ++step) {
      switch (pick(12)) {
        case 0:
          clock_.set(floor<seconds>(clock_.wall()) - minutes(pick(90)));
          break;
        case 1:
          clock_.set(floor<seconds>(clock_.wall()) + minutes(pick(300)));
          break;
        default:
          clock_.pass(minutes(pick(12)) + seconds(pick(60)));
      }
      const unsigned which = pick(2);
      live(lives[which], which == 0 ? "one" : "two");
    }
    // From here on all goes well, for long enough that nothing is left.
    unkind_.is_kind = true;
    for (auto& life : lives) life.reset();
    const auto last = process("three");
    for (int i = 0; i < 12; ++i) {
      clock_.pass(minutes(5));
      pass(*last);
    }
    check(id, ticking, begin);
    run(deployments_.archive("p", id)).value();
  }

  // Each tick has at most one run and that one session; and each that has passed has a run or is on
  // record as missed.
  void check(const std::string& id, const Ticking& ticking, sys_seconds begin) {
    std::set<std::int64_t> ran;
    std::set<std::string> sessions;
    for (const schedule::Run& one : runs(id)) {
      ASSERT_TRUE(one.scheduled_ms);
      EXPECT_TRUE(ran.insert(*one.scheduled_ms).second);
      if (one.error) continue;
      EXPECT_TRUE(sessions.insert(one.session).second);
      EXPECT_TRUE(made_.all.contains(one.session));
    }
    // Also of those that nobody knows of, because the run was given up.
    std::set<std::int64_t> made_for;
    for (const auto& [session, run] : made_.all)
      EXPECT_TRUE(made_for.insert(*run.scheduled_ms).second);
    const auto left = run(store_->read(
        {.sql = "SELECT id FROM deployment_runs WHERE state = 'starting'", .values = {}}));
    EXPECT_TRUE(left->empty());
    if (find(id).paused) return;  // what was tried for a quarter of an hour was given up
    const auto missed = misses(id);
    for (auto tick = next_after(ticking.cron, *ticking.zone, begin);
         tick && *tick < floor<seconds>(clock_.wall()) - kOnTime;
         tick = next_after(ticking.cron, *ticking.zone, *tick)) {
      const bool is_on_record = std::ranges::any_of(missed, [&](const Miss& miss) {
        return miss.first_ms <= to_ms(*tick) && to_ms(*tick) <= miss.last_ms;
      });
      EXPECT_TRUE(ran.contains(to_ms(*tick)) || is_on_record) << to_ms(*tick);
    }
  }

  std::mt19937 chance_;
  UnkindStore unkind_{*store_, chance_};
};

TEST_F(World, NothingIsRunTwiceAndNothingIsLostSilently) {
  constexpr unsigned kSeeds = 20;
  const char* wanted = getenv("PONS_SCHEDULE_SEED");
  const unsigned first = wanted == nullptr ? 1 : static_cast<unsigned>(atoi(wanted));
  const unsigned last = wanted == nullptr ? kSeeds : first;
  for (unsigned seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(testing::Message() << "PONS_SCHEDULE_SEED=" << seed);
    play(seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace pons::schedule
