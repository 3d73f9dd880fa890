#include <algorithm>
#include <random>

#include "memory_fixture.h"
#include "pons/base/text.h"
#include "pons/memory/path.h"

namespace pons::memory {
namespace {

class MemoriesTest : public MemoryTest {
 protected:
  static Task<> keep(Task<Result<Written>> task, std::optional<Result<Written>>& out) {
    out.emplace(co_await std::move(task));
  }
  static Task<bool> wait_for(linux::TaskGroup& group) {
    co_return co_await group.wait_until_empty(kNever) == linux::Wait::kReady;
  }
};

TEST_F(MemoriesTest, AMemoryIsStoredAsItIs) {
  const std::string content = "one\r\n\ttwo \u00e9 e\u0301\x01\n";
  const Memory made = create("/a/b.md", content);
  EXPECT_TRUE(made.id.starts_with("mem_"));
  EXPECT_TRUE(made.version.starts_with("memver_"));
  const auto found = run(other_->find(place_, made.id, View::kFull));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->content, content);
  EXPECT_EQ(found->sha256, sha256_hex(content));
  EXPECT_EQ(found->size_bytes, static_cast<std::int64_t>(content.size()));
  EXPECT_EQ(found->path, "/a/b.md");
  EXPECT_FALSE(run(memory_->find(place_, made.id, View::kBasic))->content);
  EXPECT_EQ(run(memory_->find_by_path(place_, "/a/b.md", View::kFull))->id, made.id);
  EXPECT_EQ(run(memory_->find_by_path(place_, "/A/b.md", View::kFull)).error().code,
            ErrorCode::kNotFound);
}

TEST_F(MemoriesTest, ContentsHaveALimitAndAreText) {
  EXPECT_TRUE(try_create("/a", std::string(102'400, 'a')));
  EXPECT_EQ(try_create("/b", std::string(102'401, 'a')).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(try_create("/b", "\xff").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(try_create("/b", std::string(1, '\0')).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(create("/b", "").size_bytes, 0);
}

TEST_F(MemoriesTest, NothingIsAFileAndAFolder) {
  const Memory note = create("/a/b");
  for (const std::string path : {"/a/b", "/a", "/a/b/c", "/a/b/c/d"}) {
    const auto refused = try_create(path);
    ASSERT_TRUE(refused) << path;
    ASSERT_TRUE(std::holds_alternative<PathConflict>(*refused)) << path;
    EXPECT_EQ(std::get<PathConflict>(*refused).memory, note.id);
    EXPECT_EQ(std::get<PathConflict>(*refused).path, "/a/b");
  }
  for (const std::string path : {"/a/bc", "/a/b0", "/a/b.", "/A/b", "/a0", "/b"}) create(path);
  const Memory other = create("/z");
  EXPECT_TRUE(std::holds_alternative<PathConflict>(*change(other.id, {.path = "/a/b/x"})));
  EXPECT_EQ(count("memory_versions"), 8);
}

TEST_F(MemoriesTest, AMemoryCanMoveBelowItself) {
  const Memory note = create("/a");
  const auto moved = change(note.id, {.path = "/a/b"});
  ASSERT_TRUE(moved);
  EXPECT_EQ(std::get<Memory>(*moved).id, note.id);
  EXPECT_EQ(std::get<Memory>(*moved).path, "/a/b");
  EXPECT_NE(std::get<Memory>(*moved).version, note.version);
  EXPECT_EQ(std::get<Memory>(*change(note.id, {.path = "/a"})).path, "/a");
}

TEST_F(MemoriesTest, WhatIsAlreadyAsWantedMakesNoVersion) {
  const Memory note = create("/a", "one");
  clock_.advance(std::chrono::seconds(1));
  const std::string wrong(64, '0');
  for (const MemoryChange& same :
       {MemoryChange{}, MemoryChange{.content = "one"}, MemoryChange{.path = "/a"},
        MemoryChange{.content = "one", .expected_sha256 = wrong}}) {
    const auto kept = change(note.id, same);
    ASSERT_TRUE(kept);
    EXPECT_EQ(std::get<Memory>(*kept).version, note.version);
    EXPECT_EQ(std::get<Memory>(*kept).updated_ms, note.updated_ms);
  }
  EXPECT_EQ(count("memory_versions"), 1);
}

TEST_F(MemoriesTest, AChangeHappensOnlyIfTheMemoryIsAsExpected) {
  const Memory note = create("/a", "one");
  const std::string wrong = sha256_hex("other");
  const auto refused = change(note.id, {.content = "two", .expected_sha256 = wrong});
  ASSERT_TRUE(refused);
  EXPECT_EQ(std::get<PreconditionFailed>(*refused).sha256, note.sha256);
  EXPECT_TRUE(std::holds_alternative<PreconditionFailed>(
      *change(note.id, {.path = "/b", .expected_sha256 = wrong})));
  EXPECT_EQ(change(note.id, {.content = "two", .expected_sha256 = "beef"}).error().code,
            ErrorCode::kInvalid);
  const auto done = change(note.id, {.content = "two", .expected_sha256 = note.sha256});
  ASSERT_TRUE(std::holds_alternative<Memory>(*done));
  EXPECT_EQ(std::get<Memory>(*done).sha256, sha256_hex("two"));
  const auto kept = run(memory_->remove(place_, note.id, note.sha256, {}));
  EXPECT_TRUE(std::holds_alternative<PreconditionFailed>(*kept));
  EXPECT_TRUE(std::holds_alternative<Deleted>(
      *run(memory_->remove(place_, note.id, sha256_hex("two"), {}))));
  EXPECT_EQ(run(memory_->remove(place_, note.id, std::nullopt, {})).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(change(note.id, {.content = "x"}).error().code, ErrorCode::kNotFound);
}

TEST_F(MemoriesTest, OfTwoProcessesThatMakeOverlappingPathsOneIsTold) {
  for (int i = 0; i < 20; ++i) {
    const std::string folder = "/" + std::to_string(i);
    std::optional<Result<Written>> one;
    std::optional<Result<Written>> two;
    linux::TaskGroup group(*loop_);
    group.spawn(keep(memory_->create(place_, {.path = folder}, {}), one));
    group.spawn(keep(other_->create(place_, {.path = folder + "/below"}, {}), two));
    run(wait_for(group));
    ASSERT_TRUE(*one) << one->error().describe();
    ASSERT_TRUE(*two) << two->error().describe();
    EXPECT_NE(std::holds_alternative<Memory>(**one), std::holds_alternative<Memory>(**two));
  }
  EXPECT_EQ(count("memories"), 20);
}

TEST_F(MemoriesTest, ManyWhoChangeOneMemoryLoseNothing) {
  const Memory note = create("/a", "0");
  std::vector<std::optional<Result<Written>>> results(12);
  {
    linux::TaskGroup group(*loop_);
    for (std::size_t i = 0; i < results.size(); ++i)
      group.spawn(
          keep((i % 2 == 0 ? memory_ : other_)
                   ->update(place_, note.id,
                            {.content = std::to_string(i + 1), .expected_sha256 = note.sha256}, {}),
               results[i]));
    run(wait_for(group));
  }
  int done = 0;
  for (const auto& result : results) {
    ASSERT_TRUE(*result) << result->error().describe();
    done += std::holds_alternative<Memory>(**result) ? 1 : 0;
  }
  EXPECT_EQ(done, 1) << "all of them expected the same";
  EXPECT_EQ(count("memory_versions"), 2);
}

// ---- lists

class MemoryLists : public MemoryTest {
 protected:
  std::vector<std::string> list(MemoryQuery query) {
    std::vector<std::string> paths;
    for (int pages = 0; pages < 1'000; ++pages) {
      const auto page = run(memory_->list(place_, query));
      EXPECT_TRUE(page) << page.error().describe();
      EXPECT_LE(static_cast<std::int64_t>(page->entries.size()), query.limit);
      for (const MemoryEntry& entry : page->entries)
        paths.push_back(std::holds_alternative<Memory>(entry) ? std::get<Memory>(entry).path
                                                              : std::get<MemoryPrefix>(entry).path);
      query.page = page->next;
      if (query.page.empty()) return paths;
      EXPECT_EQ(static_cast<std::int64_t>(page->entries.size()), query.limit);
    }
    return paths;
  }
};

TEST_F(MemoryLists, ChildrenAreNotesAndFolders) {
  for (const std::string path :
       {"/a.md", "/a/1", "/a/2", "/a/3/x", "/a0", "/b/1", "/c", "/d/e/f/g"})
    create(path);
  using Paths = std::vector<std::string>;
  constexpr auto kChildren = MemoryQuery::Depth::kChildren;
  const Paths children = {"/a.md", "/a/", "/a0", "/b/", "/c", "/d/"};
  for (const std::int64_t limit : {1, 2, 3, 5, 6, 20})
    EXPECT_EQ(list({.depth = kChildren, .limit = limit}), children) << limit;
  EXPECT_EQ(list({.path_prefix = "/a/", .depth = kChildren}), (Paths{"/a/1", "/a/2", "/a/3/"}));
  EXPECT_EQ(list({.path_prefix = "/a/", .limit = 1}), (Paths{"/a/1", "/a/2", "/a/3/x"}));
  EXPECT_EQ(list({.limit = 3}).size(), 8U);
  EXPECT_TRUE(list({.path_prefix = "/nothing/"}).empty());
  EXPECT_TRUE(list({.path_prefix = "/a.md/"}).empty());
}

TEST_F(MemoryLists, AnyPagesAddUpToTheSameChildren) {
  std::mt19937 random(3);
  std::vector<std::string> paths;
  std::set<std::string> children;
  for (int i = 0; i < 120; ++i) {
    std::string path;
    for (std::size_t k = 0, n = 1 + random() % 3; k < n; ++k)
      path +=
          "/" + std::string(1, static_cast<char>('+' + random() % 12 + (random() % 2 ? 0 : 60)));
    if (!check_path(path) ||
        std::ranges::any_of(paths, [&](const std::string& other) { return overlap(path, other); }))
      continue;
    create(path);
    paths.push_back(path);
    const std::size_t slash = path.find('/', 1);
    children.insert(slash == std::string::npos ? path : path.substr(0, slash + 1));
  }
  std::ranges::sort(paths);
  const std::vector<std::string> wanted(children.begin(), children.end());
  for (const std::int64_t limit : {1, 2, 7, 100}) {
    EXPECT_EQ(list({.limit = limit}), paths);
    EXPECT_EQ(list({.depth = MemoryQuery::Depth::kChildren, .limit = limit}), wanted);
  }
}

TEST_F(MemoryLists, ViewsHaveLimitsOfTheirOwn) {
  create("/a", "text");
  const auto full = run(memory_->list(place_, {.view = View::kFull, .limit = 20}));
  EXPECT_EQ(std::get<Memory>(full->entries.front()).content, "text");
  const auto basic = run(memory_->list(place_, {.limit = 100}));
  EXPECT_FALSE(std::get<Memory>(basic->entries.front()).content);
  EXPECT_FALSE(run(memory_->list(place_, {.view = View::kFull, .limit = 21})));
  EXPECT_FALSE(run(memory_->list(place_, {.limit = 101})));
  EXPECT_FALSE(run(memory_->list(place_, {.path_prefix = "/a"})));
}

}  // namespace
}  // namespace pons::memory
