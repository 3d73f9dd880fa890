#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "pons/base/clock.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/session/store_log.h"
#include "pons/store/postgres_store.h"
#include "pons/store_testing/postgres_server.h"

// What sessions cost in PostgreSQL, over a Unix socket: fenced appends by one session and by 32,
// each answered when it is on disk and told to others; sessions of a dead brain claimed by eight;
// and how long after an append another brain has read it.

using namespace pons;

namespace {

using session::StoreLog;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr int kClaimers = 8;
constexpr int kLeft = 20'000;

SteadyTime now() {
  return std::chrono::steady_clock::now();
}

double milliseconds_since(SteadyTime begun) {
  return std::chrono::duration<double, std::milli>(now() - begun).count();
}

session::StoredEvent event_of(session::Seq seq) {
  // About what a command that prints a few lines leaves behind.
  constexpr std::size_t kTextBytes = 200;
  return {.seq = seq,
          .at_ms = 1,
          .event = session::ToolEnded{
              .call = seq - 1, .text = std::string(kTextBytes, 'x'), .took_ms = 12}};
}

// One brain, as far as its store goes.
struct Brain {
  Brain(linux::Loop& loop, std::unique_ptr<store::PostgresStore> opened, std::string name,
        const Clock& clock)
      : store(std::move(opened)),
        log(*store, clock,
            {.owner = std::move(name),
             .lease = std::chrono::seconds(6),
             .uses_servers_clock = true,
             .bell = store->bell()}),
        heard(loop) {
    store->bell()->listen([this](std::string_view) { heard.set(); });
  }
  std::unique_ptr<store::PostgresStore> store;
  StoreLog log;
  linux::Event heard;
};

class Bench {
 public:
  explicit Bench(int seconds) : seconds_(seconds), loop_(std::move(*linux::Loop::create())) {
    database_ = store::PostgresServer::shared().empty_database();
    one_ = open("one");
    two_ = open("two");
    (void)run(one_->store->write({{.sql = "INSERT INTO projects (id, name, created) "
                                          "VALUES ('default', 'default', 1)",
                                   .values = {}}}));
  }

  double appends_per_second(int sessions) {
    done_ = 0;
    linux::TaskGroup group(*loop_);
    const auto end = now() + std::chrono::seconds(seconds_);
    for (int i = 0; i < sessions; ++i)
      group.spawn(append_until(fmt::format("ses_{}_{}", sessions, i), end));
    run(wait_for(group));
    return static_cast<double>(done_) / seconds_;
  }

  double claims_per_second() {
    (void)run(one_->store->write(
        {{.sql = fmt::format(
              "INSERT INTO sessions (id, project_id, agent, parent_id, title, status, ended, head, "
              "epoch, owner, lease_until, created, updated, input_tokens, cache_read_tokens, "
              "cache_write_tokens, output_tokens, cost_nano) SELECT 'left_' || n, 'default', '', "
              "'', '', 'running', '', 1, 1, 'dead', n, 1, 1, 0, 0, 0, 0, 0 "
              "FROM generate_series(1, {}) AS n",
              kLeft),
          .values = {}}}));
    store::PostgresServer::shared().execute(database_, "VACUUM ANALYZE sessions");
    // Who has just come says nothing about who is dead: this one does not ask whether others live.
    StoreLog log(*two_->store, clock_, {.owner = "claimer", .uses_servers_clock = true});
    done_ = 0;
    linux::TaskGroup group(*loop_);
    const auto begun = now();
    const auto end = begun + std::chrono::seconds(seconds_);
    for (int i = 0; i < kClaimers; ++i) group.spawn(claim_until(log, end));
    run(wait_for(group));
    return static_cast<double>(done_) * 1e3 / milliseconds_since(begun);
  }

  double wakeup_p50_ms() { return run(measure_wakeups()); }

 private:
  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }

  std::unique_ptr<Brain> open(std::string name) {
    auto opened = run(store::PostgresStore::open(
        *loop_, {.open = store::PostgresServer::shared().opener(*loop_, database_),
                 .shown = "bench",
                 .name = name}));
    if (!opened) {
      fmt::print(stderr, "bench: {}\n", opened.error().describe());
      std::exit(1);
    }
    return std::make_unique<Brain>(*loop_, std::move(*opened), std::move(name), clock_);
  }

  static Task<bool> wait_for(linux::TaskGroup& group) {
    co_await group.wait_until_empty(kNever);
    co_return true;
  }

  Task<> append_until(std::string id, SteadyTime end) {
    session::Summary summary{.id = id, .project = "default", .agent = "default", .head = 1};
    summary.status = session::Status::kRunning;
    const auto lease =
        co_await one_->log.create(summary, {{.seq = 1, .at_ms = 1, .event = session::Created{}}});
    while (lease && now() < end) {
      summary.head += 1;
      const auto done = co_await one_->log.append(
          {.lease = *lease, .events = {event_of(summary.head)}, .summary = summary});
      if (!done) {
        fmt::print(stderr, "bench: {}\n", done.error().describe());
        break;
      }
      ++done_;
    }
  }

  Task<> claim_until(StoreLog& log, SteadyTime end) {
    while (now() < end) {
      const auto claimed = co_await log.claim(1);
      if (!claimed || claimed->empty()) co_return;
      done_ += claimed->size();
    }
  }

  // From before the append until the other brain has the event.
  Task<double> measure_wakeups() {
    constexpr int kTimes = 300;
    session::Summary summary{.id = "ses_wake", .project = "default", .agent = "default", .head = 1};
    const auto lease =
        co_await one_->log.create(summary, {{.seq = 1, .at_ms = 1, .event = session::Created{}}});
    std::vector<double> took;
    for (int i = 0; lease && i < kTimes; ++i) {
      co_await loop_->sleep_for(std::chrono::milliseconds(5));
      two_->heard.reset();
      const auto begun = now();
      summary.head += 1;
      (void)co_await one_->log.append(
          {.lease = *lease, .events = {event_of(summary.head)}, .summary = summary});
      for (;;) {
        co_await two_->heard.wait(loop_->now() + std::chrono::seconds(5));
        two_->heard.reset();
        const auto read = co_await two_->log.read("ses_wake", summary.head - 1, 8);
        if (!read || !read->empty()) break;
      }
      took.push_back(milliseconds_since(begun));
    }
    std::ranges::sort(took);
    co_return took.empty() ? 0 : took[took.size() / 2];
  }

  const int seconds_;
  const SystemClock clock_;
  std::unique_ptr<linux::Loop> loop_;
  std::string database_;
  std::unique_ptr<Brain> one_;
  std::unique_ptr<Brain> two_;
  std::uint64_t done_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  Bench bench(quick ? 2 : 10);
  const double one = bench.appends_per_second(1);
  const double many = bench.appends_per_second(32);
  const double claims = bench.claims_per_second();
  const double wakeup = bench.wakeup_p50_ms();
  fmt::print(
      "{{\"append_per_s_postgres_1\":{:.0f},\"append_per_s_postgres_32\":{:.0f},"
      "\"claim_per_s_postgres_8\":{:.0f},\"wakeup_p50_ms\":{:.2f}}}\n",
      one, many, claims, wakeup);
  return 0;
}
