#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "pons/base/clock.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/memory/memory_stores.h"
#include "pons/store/sqlite_store.h"

// How long it takes to find notes among 100,000 of one store, and to choose those that a session
// starts with; and how many are written in a second, each with its version and its words.

using namespace pons;
using memory::MemoryStores;

namespace {

constexpr int kNotes = 100'000;
constexpr int kWords = 30'000;
constexpr int kNotesAtOnce = 200;

// Of the clock, and of the processors: on a busy machine only the second means something.
struct Times {
  std::vector<double> wall_ms;
  std::vector<double> cpu_ms;
};

double cpu_now_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

class Stopwatch {
 public:
  explicit Stopwatch(Times& times) : times_(times) {}
  ~Stopwatch() {
    const std::chrono::duration<double, std::milli> wall =
        std::chrono::steady_clock::now() - begin_;
    times_.wall_ms.push_back(wall.count());
    times_.cpu_ms.push_back(cpu_now_ms() - cpu_begin_ms_);
  }

 private:
  Times& times_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double cpu_begin_ms_ = cpu_now_ms();
};

Task<Result<std::vector<std::string>>> find_nothing(std::string) {
  co_return std::vector<std::string>();
}

double percentile(std::vector<double> times, double part) {
  std::ranges::sort(times);
  return times.empty() ? 0 : times[static_cast<std::size_t>(part * (times.size() - 1))];
}

// Words as often as in a language: the second half as often as the first, the third a third.
class Language {
 public:
  Language() {
    double sum = 0;
    for (int i = 0; i < kWords; ++i) {
      sum += 1.0 / (i + 2.7);
      sums_.push_back(sum);
      words_.push_back(spell(i));
    }
  }
  std::string note() {
    std::string text;
    for (int i = 0, n = 40 + static_cast<int>(random_() % 120); i < n; ++i) {
      const double at = std::uniform_real_distribution<>(0, sums_.back())(random_);
      text += words_[static_cast<std::size_t>(std::ranges::lower_bound(sums_, at) - sums_.begin())];
      text += i % 12 == 11 ? ".\n" : " ";
    }
    return text;
  }
  // Out of the words of these ranks.
  std::string question(int first, int last, int words) {
    std::string text = "how do we";
    for (int i = 0; i < words; ++i)
      text += " " + words_[static_cast<std::size_t>(first) + random_() % (last - first)];
    return text + "?";
  }

 private:
  static std::string spell(int number) {
    static constexpr std::string_view kConsonants = "bdfgklmnprtvz";
    static constexpr std::string_view kVowels = "aou";
    std::string word;
    for (int rest = number + 40; rest > 0; rest /= 39) {
      word += kConsonants[static_cast<std::size_t>(rest % 39 / 3)];
      word += kVowels[static_cast<std::size_t>(rest % 3)];
    }
    return word + "k";
  }

  std::vector<double> sums_;
  std::vector<std::string> words_;
  std::mt19937 random_{11};
};

// As many as fit into a transaction at once, or filling would take longer than looking.
store::Transaction notes_from(int first, const memory::Place& place, Language& language) {
  store::Transaction all;
  for (int i = first; i < std::min(first + kNotesAtOnce, kNotes); ++i) {
    const std::string text = language.note();
    const auto number = static_cast<std::int64_t>(i + 1);
    const std::string path = fmt::format("/folder{}/note{}.md", i / 100, i);
    all.push_back(
        {.sql = "INSERT INTO memories (id, project_id, store_id, number, path, "
                "version_id, sha256, size, provenance, pinned, uses, used, weight, "
                "created, updated) VALUES ($1, $2, $3, $4, $5, $6, '', $7, 'agent', 0, "
                "0, 0, $4, $4, $4)",
         .values = {fmt::format("mem_{}", i), place.project, place.store, number, path,
                    fmt::format("memver_{}", i), static_cast<std::int64_t>(text.size())}});
    all.push_back({.sql = "INSERT INTO memory_versions (id, project_id, store_id, memory_id, "
                          "number, operation, path, sha256, size, provenance, actor_kind, "
                          "actor_id, created, content) VALUES ($1, $2, $3, $4, $5, 'created', $6, "
                          "'', $7, 'agent', 'user_actor', '', $5, $8)",
                   .values = {fmt::format("memver_{}", i), place.project, place.store,
                              fmt::format("mem_{}", i), number, path,
                              static_cast<std::int64_t>(text.size()), text}});
    all.push_back({.sql = "INSERT INTO memory_search (rowid, path, content) SELECT number * "
                          "4294967296 + $2, $3, $4 FROM memory_stores WHERE id = $1",
                   .values = {place.store, number, path, text}});
  }
  all.push_back({.sql = "UPDATE memory_stores SET revision = $2, memories = $2 WHERE id = $1",
                 .values = {place.store, static_cast<std::int64_t>(first + kNotesAtOnce)}});
  return all;
}

Task<Result<memory::Place>> fill(store::Store& store, MemoryStores& memories, Language& language) {
  CO_TRY_VOID(co_await store.write(
      {{.sql = "INSERT INTO projects (id, name, created) VALUES ('p', 'p', 1)", .values = {}}}));
  CO_TRY(const auto made, co_await memories.create_store("p", {.name = "notes"}));
  const memory::Place place{.project = "p", .store = made.id};
  for (int first = 0; first < kNotes; first += kNotesAtOnce)
    CO_TRY_VOID(co_await store.write(notes_from(first, place, language)));
  co_return place;
}

Task<Result<Times>> time_searches(MemoryStores& memories, memory::Place place,
                                  std::vector<std::string> questions) {
  Times times;
  for (const std::string& question : questions) {
    const Stopwatch watch(times);
    CO_TRY_VOID(co_await memories.search(place.project, {place.store}, question, 10));
  }
  co_return times;
}

Task<Result<Times>> time_preloads(MemoryStores& memories, memory::Place place, int rounds) {
  constexpr std::size_t kBudget = 16 << 10;
  Times times;
  for (int i = 0; i < rounds; ++i) {
    const Stopwatch watch(times);
    CO_TRY_VOID(co_await memories.preload(place.project, {place.store}, kBudget));
  }
  co_return times;
}

struct Writers {
  std::int64_t done = 0;
  int running = 0;
};
Task<> write_until(MemoryStores& memories, memory::Place place, std::string folder,
                   std::string text, std::chrono::steady_clock::time_point end, Writers& writers,
                   linux::Loop& loop) {
  for (int i = 0; std::chrono::steady_clock::now() < end; ++i) {
    const auto made = co_await memories.create(
        place, {.path = fmt::format("{}/{}", folder, i), .content = text}, {});
    if (made && std::holds_alternative<memory::Memory>(*made)) ++writers.done;
  }
  if (--writers.running == 0) loop.stop();
}

std::vector<std::string> questions(Language& language, int count, int first, int last, int words) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back(language.question(first, last, words));
  return all;
}

int measure(const std::string& directory, bool quick) {
  auto loop = std::move(*linux::Loop::create());
  auto opened = store::SqliteStore::open(*loop, {.path = directory + "/pons.db", .shown = ""});
  const SystemClock clock;
  MemoryStores memories(**opened, clock, find_nothing);
  Language language;
  const auto begin = std::chrono::steady_clock::now();
  const auto place = linux::run_to_end(*loop, fill(**opened, memories, language));
  if (!place) {
    fmt::print(stderr, "bench: {}\n", place.error().describe());
    return 1;
  }
  const std::chrono::duration<double> filled = std::chrono::steady_clock::now() - begin;
  fmt::print("{} notes in {:.1f} s, {} MB\n", kNotes, filled.count(),
             std::filesystem::file_size(directory + "/pons.db") >> 20U);
  const int rounds = quick ? 200 : 1'000;
  const auto timed = [&](int first, int last, int words) {
    return linux::run_to_end(*loop, time_searches(memories, *place,
                                                  questions(language, rounds, first, last, words)))
        .value();
  };
  timed(100, 20'000, 3);  // the file is in memory from now on
  const Times usual = timed(100, 20'000, 3);
  const Times one_word = timed(100, 20'000, 1);
  const Times common = timed(5, 100, 3);
  const Times preloads = linux::run_to_end(*loop, time_preloads(memories, *place, rounds)).value();
  constexpr int kWriters = 16;
  const int seconds = quick ? 3 : 10;
  Writers writers{.running = kWriters};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (int i = 0; i < kWriters; ++i)
    loop->spawn(write_until(memories, *place, fmt::format("/w{}", i), language.note(), end, writers,
                            *loop));
  loop->run();
  fmt::print(
      "{{\"memory_search_p50_ms_100k\":{:.2f},\"memory_search_p99_ms_100k\":{:.2f},"
      "\"memory_search_cpu_p50_ms_100k\":{:.2f},\"memory_search_word_cpu_p50_ms_100k\":{:.2f},"
      "\"memory_search_common_cpu_p50_ms_100k\":{:.2f},\"memory_preload_cpu_p50_ms_100k\":{:.2f},"
      "\"memory_creates_per_s\":{:.0f}}}\n",
      percentile(usual.wall_ms, 0.5), percentile(usual.wall_ms, 0.99),
      percentile(usual.cpu_ms, 0.5), percentile(one_word.cpu_ms, 0.5),
      percentile(common.cpu_ms, 0.5), percentile(preloads.cpu_ms, 0.5),
      static_cast<double>(writers.done) / seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  char name[] = "/var/tmp/pons-bench-memory-XXXXXX";  // a disk, not memory
  if (mkdtemp(name) == nullptr) return 1;
  const int code = measure(name, quick);
  std::filesystem::remove_all(name);
  return code;
}
