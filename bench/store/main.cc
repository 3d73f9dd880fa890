#include <sqlite3.h>
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "pons/linux/loop.h"
#include "pons/store/sqlite_store.h"

// Appends per second to the store, each answered when it is on disk; beside SQLite itself, which
// commits each one alone.

using namespace pons;
using store::SqliteStore;

namespace {

constexpr std::size_t kPayloadBytes = 200;

using SteadyTime = std::chrono::steady_clock::time_point;

struct Count {
  std::uint64_t done = 0;
  std::uint64_t failed = 0;
  int running = 0;
};

store::Transaction append_of(const std::string& id) {
  return {{.sql = "INSERT INTO projects (id, name, created) VALUES ($1, $2, $3)",
           .values = {id, id + std::string(kPayloadBytes, 'x'), std::int64_t{1}}}};
}

Task<> append_until(SqliteStore& store, std::string name, SteadyTime end, Count& count,
                    linux::Loop& loop) {
  for (std::uint64_t i = 0; std::chrono::steady_clock::now() < end; ++i) {
    const auto done = co_await store.write(append_of(fmt::format("{}-{}", name, i)));
    ++(done ? count.done : count.failed);
  }
  if (--count.running == 0) loop.stop();
}

double appends_per_second(const std::string& directory, int writers, int seconds) {
  auto loop = std::move(*linux::Loop::create());
  auto opened = SqliteStore::open(
      *loop, {.path = fmt::format("{}/store-{}.db", directory, writers), .shown = ""});
  if (!opened) {
    fmt::print(stderr, "bench: {}\n", opened.error().describe());
    return 0;
  }
  Count count{.running = writers};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (int i = 0; i < writers; ++i)
    loop->spawn(append_until(**opened, fmt::format("w{}", i), end, count, *loop));
  loop->run();
  if (count.failed > 0) fmt::print(stderr, "bench: {} appends failed\n", count.failed);
  return static_cast<double>(count.done) / seconds;
}

double plain_appends_per_second(const std::string& directory, int seconds) {
  sqlite3* database = nullptr;
  sqlite3_open((directory + "/plain.db").c_str(), &database);
  sqlite3_exec(database,
               "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE projects (id "
               "TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE, created BIGINT NOT NULL)",
               nullptr, nullptr, nullptr);
  sqlite3_stmt* insert = nullptr;
  sqlite3_prepare_v2(database, "INSERT INTO projects VALUES (?, ?, 1)", -1, &insert, nullptr);
  std::uint64_t done = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    const std::string id = fmt::format("p-{}", done);
    const std::string name = id + std::string(kPayloadBytes, 'x');
    sqlite3_bind_text(insert, 1, id.c_str(), -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(insert, 2, name.c_str(), -1, SQLITE_TRANSIENT);
    if (sqlite3_step(insert) == SQLITE_DONE) ++done;
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
  sqlite3_close(database);
  return static_cast<double>(done) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const int seconds = quick ? 1 : 10;
  char name[] = "/var/tmp/pons-bench-store-XXXXXX";  // a disk, not memory
  if (mkdtemp(name) == nullptr) return 1;
  const double plain = plain_appends_per_second(name, seconds);
  const double one = appends_per_second(name, 1, seconds);
  const double many = appends_per_second(name, 64, seconds);
  std::filesystem::remove_all(name);
  fmt::print("appends per second: 1 writer {:.0f}, 64 writers {:.0f}, SQLite alone {:.0f}\n", one,
             many, plain);
  fmt::print(
      "{{\"appends_1_writer\":{:.0f},\"appends_64_writers\":{:.0f},\"appends_1_ratio_sqlite\":"
      "{:.2f},\"appends_64_ratio_sqlite\":{:.2f}}}\n",
      one, many, one / plain, many / plain);
  return 0;
}
