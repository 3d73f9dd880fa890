#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "pons/base/clock.h"
#include "pons/linux/loop.h"
#include "pons/session/store_log.h"
#include "pons/store/sqlite_store.h"

// Events per second that sessions append, each answered when it is on disk: one session, which
// waits for each of its events, and 32 of them side by side.

using namespace pons;

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

struct Count {
  std::uint64_t done = 0;
  std::uint64_t failed = 0;
  int running = 0;
};

session::StoredEvent event_of(session::Seq seq) {
  // About what a command that prints a few lines leaves behind.
  constexpr std::size_t kTextBytes = 200;
  return {.seq = seq,
          .at_ms = 1,
          .event = session::ToolEnded{
              .call = seq - 1, .text = std::string(kTextBytes, 'x'), .took_ms = 12}};
}

Task<> append_until(session::Log& log, std::string id, SteadyTime end, Count& count,
                    linux::Loop& loop) {
  session::Summary summary{.id = id, .project = "default", .agent = "default", .head = 1};
  const auto lease =
      co_await log.create(summary, {{.seq = 1, .at_ms = 1, .event = session::Created{}}});
  if (!lease) ++count.failed;
  while (lease && std::chrono::steady_clock::now() < end) {
    summary.head += 1;
    const auto done = co_await log.append(
        {.lease = *lease, .events = {event_of(summary.head)}, .summary = summary});
    ++(done ? count.done : count.failed);
    if (!done) break;
  }
  if (--count.running == 0) loop.stop();
}

Task<> make_project(store::Store& store, linux::Loop& loop) {
  (void)co_await store.write({{.sql = "INSERT INTO projects (id, name, created) "
                                      "VALUES ('default', 'default', 1)",
                               .values = {}}});
  loop.stop();
}

double appends_per_second(const std::string& directory, int sessions, int seconds) {
  auto loop = std::move(*linux::Loop::create());
  auto store = store::SqliteStore::open(
      *loop, {.path = fmt::format("{}/log-{}.db", directory, sessions), .shown = ""});
  if (!store) {
    fmt::print(stderr, "bench: {}\n", store.error().describe());
    return 0;
  }
  loop->spawn(make_project(**store, *loop));
  loop->run();
  const SystemClock clock;
  session::StoreLog log(**store, clock, "bench");
  Count count{.running = sessions};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (int i = 0; i < sessions; ++i)
    loop->spawn(append_until(log, fmt::format("ses_{}", i), end, count, *loop));
  loop->run();
  if (count.failed > 0) fmt::print(stderr, "bench: {} appends failed\n", count.failed);
  return static_cast<double>(count.done) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const int seconds = quick ? 3 : 10;
  char name[] = "/var/tmp/pons-bench-brain-XXXXXX";  // a disk, not memory
  if (mkdtemp(name) == nullptr) return 1;
  const double one = appends_per_second(name, 1, seconds);
  const double many = appends_per_second(name, 32, seconds);
  std::filesystem::remove_all(name);
  fmt::print("{{\"append_per_s_sqlite_1\":{:.0f},\"append_per_s_sqlite_32\":{:.0f}}}\n", one, many);
  return 0;
}
