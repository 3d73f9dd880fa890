#include "memory_fixture.h"

namespace pons::memory {
namespace {

using MemoryStoresTest = MemoryTest;

TEST_F(MemoryStoresTest, AStoreIsReadBackAsItWasMade) {
  const auto made = run(memory_->create_store(
      "p", {.name = "Team notes", .description = "a\nb", .metadata = {{"k", "v"}}}));
  ASSERT_TRUE(made) << made.error().describe();
  EXPECT_TRUE(made->id.starts_with("memstore_"));
  const auto found = run(other_->find_store({.project = "p", .store = made->id}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "Team notes");
  EXPECT_EQ(found->description, "a\nb");
  EXPECT_EQ(found->metadata, (Metadata{{"k", "v"}}));
  EXPECT_EQ(found->created_ms, found->updated_ms);
  EXPECT_FALSE(found->archived_ms);
}

TEST_F(MemoryStoresTest, WhatIsNoStoreIsRefused) {
  Metadata many;
  for (int i = 0; i < 17; ++i) many[std::to_string(i)] = "v";
  for (const NewStore& wanted :
       {NewStore{.name = ""}, NewStore{.name = std::string(256, 'a')}, NewStore{.name = "a\nb"},
        NewStore{.name = "a\xff"}, NewStore{.name = "n", .description = std::string(1025, 'a')},
        NewStore{.name = "n", .metadata = many}, NewStore{.name = "n", .metadata = {{"", "v"}}},
        NewStore{.name = "n", .metadata = {{std::string(65, 'k'), "v"}}},
        NewStore{.name = "n", .metadata = {{"k", std::string(513, 'v')}}}})
    EXPECT_EQ(run(memory_->create_store("p", wanted)).error().code, ErrorCode::kInvalid);
  EXPECT_TRUE(run(memory_->create_store("p", {.name = "\u00e9" + std::string(254, 'a')})));
}

TEST_F(MemoryStoresTest, AChangeKeepsWhatItDoesNotName) {
  const auto before = run(
      memory_->update_store(place_, {.description = "d", .metadata = {{"a", "1"}, {"b", "2"}}}));
  ASSERT_TRUE(before);
  clock_.advance(std::chrono::seconds(1));
  const auto after =
      run(memory_->update_store(place_, {.metadata = {{"a", std::nullopt}, {"c", "3"}}}));
  ASSERT_TRUE(after);
  EXPECT_EQ(after->name, "notes");
  EXPECT_EQ(after->description, "d");
  EXPECT_EQ(after->metadata, (Metadata{{"b", "2"}, {"c", "3"}}));
  EXPECT_GT(after->updated_ms, before->updated_ms);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(run(memory_->update_store(place_, {.name = "notes"}))->updated_ms, after->updated_ms);
}

TEST_F(MemoryStoresTest, WritingMemoriesDoesNotMoveTheStoresTime) {
  const auto before = run(memory_->find_store(place_))->updated_ms;
  clock_.advance(std::chrono::seconds(1));
  create("/a");
  EXPECT_EQ(run(memory_->find_store(place_))->updated_ms, before);
}

TEST_F(MemoryStoresTest, AnArchivedStoreIsReadDeletedAndRedactedAndNothingElse) {
  const Memory note = create("/a", "one");
  ASSERT_TRUE(change(note.id, {.content = "two"}));
  const auto archived = run(memory_->archive_store(place_));
  ASSERT_TRUE(archived->archived_ms);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(run(memory_->archive_store(place_))->archived_ms, archived->archived_ms);
  EXPECT_EQ(try_create("/b").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(change(note.id, {.content = "three"}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(change(note.id, {.content = "two"}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(run(memory_->update_store(place_, {.name = "x"})).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(*run(memory_->find(place_, note.id, View::kFull))->content, "two");
  EXPECT_TRUE(run(memory_->redact_version(place_, note.version, {})));
  EXPECT_TRUE(run(memory_->remove(place_, note.id, std::nullopt, by(Provenance::kHuman))));
}

TEST_F(MemoryStoresTest, NothingIsLeftOfADeletedStore) {
  MemoryLimits limits;
  limits.swept_at_once = 2;
  start(limits);
  for (int i = 0; i < 5; ++i) create("/" + std::to_string(i), "walrus");
  const Place kept{.project = "p",
                   .store = run(memory_->create_store("p", {.name = "kept"})).value().id};
  ASSERT_TRUE(run(memory_->create(kept, {.path = "/k", .content = "walrus"}, {})));
  ASSERT_TRUE(run(memory_->delete_store(place_)));
  EXPECT_EQ(run(memory_->find_store(place_)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->delete_store(place_)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(count("memories"), 1);
  EXPECT_EQ(count("memory_versions"), 1);
  EXPECT_EQ(count("memory_stores"), 1);
  EXPECT_EQ(count("memory_search WHERE memory_search MATCH 'walrus'"), 1);
}

TEST_F(MemoryStoresTest, AStoreWhoseRemovalWasCutOffIsHiddenAndSweptLater) {
  const Memory note = create("/a", "walrus");
  ASSERT_TRUE(run(one_->write({{.sql = "UPDATE memory_stores SET deleted = 1", .values = {}}})));
  EXPECT_EQ(run(memory_->find(place_, note.id, View::kFull)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->find_version(place_, note.version, View::kFull)).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->list(place_, {})).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->list_versions(place_, {})).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->search("p", {place_.store}, "walrus", 1)).error().code,
            ErrorCode::kNotFound);
  EXPECT_TRUE(run(memory_->preload("p", {place_.store}, 1'000))->notes.empty());
  EXPECT_EQ(try_create("/b").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(run(memory_->list_stores("p", {}))->entries.empty());
  ASSERT_TRUE(run(memory_->sweep()));
  EXPECT_EQ(count("memory_stores"), 0);
  EXPECT_EQ(count("memory_versions"), 0);
  EXPECT_EQ(count("memory_search WHERE memory_search MATCH 'walrus'"), 0);
}

TEST_F(MemoryStoresTest, ListsComeInPagesTheNewestFirst) {
  std::vector<std::string> ids = {place_.store};
  for (int i = 0; i < 4; ++i) {
    clock_.advance(std::chrono::seconds(1));
    ids.push_back(run(memory_->create_store("p", {.name = std::to_string(i)})).value().id);
  }
  ASSERT_TRUE(run(memory_->archive_store({.project = "p", .store = ids[2]})));
  std::vector<std::string> listed;
  StoreQuery query{.with_archived = true, .limit = 2};
  do {
    const auto page = run(memory_->list_stores("p", query)).value();
    for (const MemoryStore& store : page.entries) listed.push_back(store.id);
    query.page = page.next;
  } while (!query.page.empty());
  EXPECT_EQ(listed, (std::vector<std::string>{ids[4], ids[3], ids[2], ids[1], ids[0]}));
  EXPECT_EQ(run(memory_->list_stores("p", {}))->entries.size(), 4U);
  const auto made = run(memory_->find_store({.project = "p", .store = ids[3]}))->created_ms;
  EXPECT_EQ(run(memory_->list_stores("p", {.created_from_ms = made}))->entries.size(), 2U);
  EXPECT_EQ(run(memory_->list_stores("p", {.created_to_ms = made}))->entries.size(), 3U);
}

TEST_F(MemoryStoresTest, ACursorOfAnotherListIsRefused) {
  ASSERT_TRUE(run(memory_->create_store("p", {.name = "b"})));
  const std::string next = run(memory_->list_stores("p", {.limit = 1}))->next;
  ASSERT_FALSE(next.empty());
  EXPECT_TRUE(run(memory_->list_stores("p", {.limit = 2, .page = next})));
  EXPECT_FALSE(run(memory_->list_stores("q", {.page = next})));
  EXPECT_FALSE(run(memory_->list_stores("p", {.with_archived = true, .page = next})));
  EXPECT_FALSE(run(memory_->list(place_, {.page = next})));
  for (const std::string page : {"x", "====", "AAAA", "\xff", "c2RmZ3NkZmdzZGZnOnNkZg"})
    EXPECT_EQ(run(memory_->list_stores("p", {.page = page})).error().code, ErrorCode::kInvalid);
  for (const std::int64_t limit : {-1, 0, 101})
    EXPECT_EQ(run(memory_->list_stores("p", {.limit = limit})).error().code, ErrorCode::kInvalid);
}

TEST_F(MemoryStoresTest, AnotherProjectFindsNothing) {
  const Memory note = create("/a", "walrus");
  const Place theirs{.project = "q", .store = place_.store};
  EXPECT_EQ(run(memory_->find_store(theirs)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->update_store(theirs, {.name = "x"})).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->archive_store(theirs)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->delete_store(theirs)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->find(theirs, note.id, View::kFull)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->list(theirs, {})).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->create(theirs, {.path = "/b"}, {})).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->update(theirs, note.id, {.content = "x"}, {})).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->remove(theirs, note.id, std::nullopt, {})).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->mark(theirs, note.id, {.pinned = true})).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->list_versions(theirs, {})).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->find_version(theirs, note.version, View::kFull)).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->redact_version(theirs, note.version, {})).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(run(memory_->search("q", {place_.store}, "walrus", 5)).error().code,
            ErrorCode::kNotFound);
  EXPECT_TRUE(run(memory_->preload("q", {place_.store}, 1'000))->notes.empty());
  ASSERT_TRUE(run(memory_->note_use(theirs, note.id)));
  EXPECT_EQ(run(memory_->find(place_, note.id, View::kBasic))->uses, 0);
}

TEST_F(MemoryStoresTest, LimitsAreKept) {
  start({.stores = 2, .memories = 2, .bytes = 100});
  EXPECT_TRUE(run(memory_->create_store("p", {.name = "b"})));
  EXPECT_EQ(run(memory_->create_store("p", {.name = "c"})).error().code, ErrorCode::kLimit);
  const Memory note = create("/a", std::string(40, 'a'));
  EXPECT_EQ(try_create("/b", std::string(61, 'a')).error().code, ErrorCode::kLimit);
  ASSERT_TRUE(change(note.id, {.content = std::string(40, 'b')}));
  EXPECT_EQ(change(note.id, {.content = std::string(40, 'c')}).error().code, ErrorCode::kLimit);
  ASSERT_TRUE(run(memory_->redact_version(place_, note.version, {})));
  EXPECT_TRUE(change(note.id, {.content = std::string(40, 'c')}));
  create("/b", "");
  EXPECT_EQ(try_create("/c", "").error().code, ErrorCode::kLimit);
  ASSERT_TRUE(run(memory_->remove(place_, note.id, std::nullopt, {})));
  EXPECT_TRUE(try_create("/c", ""));
}

TEST_F(MemoryStoresTest, TextsWithCredentialsAreRefusedByName) {
  const auto expect_refusal = [](const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kDenied);
    EXPECT_NE(error.message.find("credential github;"), std::string::npos) << error.message;
    EXPECT_EQ(error.message.find("hunter2"), std::string::npos);
  };
  expect_refusal(try_create("/a", "x hunter2").error());
  expect_refusal(try_create("/hunter2", "x").error());
  const Memory note = create("/a");
  expect_refusal(change(note.id, {.content = "hunter2"}).error());
  expect_refusal(change(note.id, {.path = "/hunter2"}).error());
  expect_refusal(run(memory_->create_store("p", {.name = "hunter2"})).error());
  expect_refusal(run(memory_->update_store(place_, {.metadata = {{"k", "hunter2"}}})).error());
  EXPECT_EQ(try_create("/b", "egress-is-down").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(count("memory_versions"), 1);
}

}  // namespace
}  // namespace pons::memory
