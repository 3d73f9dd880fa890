#include "memory_fixture.h"
#include "pons/base/text.h"

namespace pons::memory {
namespace {

using VersionsTest = MemoryTest;

TEST_F(VersionsTest, EveryChangeIsAVersionAndOutlivesTheMemory) {
  const Memory note = create("/a", "one");
  ASSERT_TRUE(change(note.id, {.content = "two"}));
  ASSERT_TRUE(change(note.id, {.path = "/b"}));
  const Actor session{.kind = Actor::Kind::kSession, .id = "sesn_1"};
  ASSERT_TRUE(run(memory_->remove(place_, note.id, std::nullopt, {.actor = session})));
  const auto page = run(memory_->list_versions(place_, {.view = View::kFull})).value();
  ASSERT_EQ(page.entries.size(), 4U);
  const MemoryVersion& deleted = page.entries[0];
  EXPECT_EQ(deleted.operation, Operation::kDeleted);
  EXPECT_EQ(deleted.path, "/b");
  EXPECT_FALSE(deleted.content || deleted.sha256 || deleted.size_bytes);
  EXPECT_EQ(deleted.created_by, session);
  EXPECT_EQ(page.entries[1].operation, Operation::kModified);
  EXPECT_EQ(page.entries[1].path, "/b");
  EXPECT_EQ(page.entries[1].content, "two");
  EXPECT_EQ(page.entries[2].path, "/a");
  EXPECT_EQ(page.entries[3].operation, Operation::kCreated);
  EXPECT_EQ(page.entries[3].id, note.version);
  EXPECT_EQ(page.entries[3].content, "one");
  EXPECT_EQ(page.entries[3].sha256, sha256_hex("one"));
  EXPECT_EQ(page.entries[3].created_by, by(Provenance::kHuman).actor);
}

TEST_F(VersionsTest, ListsAreFilteredAndPaged) {
  const Memory note = create("/a");
  clock_.advance(std::chrono::seconds(1));
  const Memory other = create("/b");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(change(note.id, {.content = std::to_string(i)}));
  const Actor session{.kind = Actor::Kind::kSession, .id = "sesn_1"};
  ASSERT_TRUE(run(memory_->update(place_, other.id, {.content = "s"}, {.actor = session})));
  const auto all = [&](VersionQuery query) {
    std::vector<std::int64_t> numbers;
    query.limit = 2;
    do {
      const auto page = run(memory_->list_versions(place_, query)).value();
      for (const MemoryVersion& version : page.entries) {
        EXPECT_FALSE(version.content);
        numbers.push_back(version.number);
      }
      query.page = page.next;
    } while (!query.page.empty());
    EXPECT_TRUE(std::ranges::is_sorted(numbers, std::greater<>()));
    return numbers.size();
  };
  EXPECT_EQ(all({}), 8U);
  EXPECT_EQ(all({.memory = note.id}), 6U);
  EXPECT_EQ(all({.operation = Operation::kCreated}), 2U);
  EXPECT_EQ(all({.actor = session}), 1U);
  EXPECT_EQ(all({.actor = Actor{.kind = Actor::Kind::kApiKey, .id = "sesn_1"}}), 0U);
  EXPECT_EQ(all({.created_from_ms = other.created_ms}), 7U);
  EXPECT_EQ(all({.created_to_ms = note.created_ms}), 1U);
  const std::string next = run(memory_->list_versions(place_, {.limit = 1}))->next;
  EXPECT_FALSE(run(memory_->list_versions(place_, {.memory = note.id, .page = next})));
  EXPECT_FALSE(run(memory_->list_versions(place_, {.view = View::kFull, .limit = 21})));
}

TEST_F(VersionsTest, ARedactedVersionKeepsWhoAndWhenAndNothingElse) {
  const Memory note = create("/a", "one");
  ASSERT_TRUE(change(note.id, {.content = "two"}));
  clock_.advance(std::chrono::seconds(1));
  const Actor user{.kind = Actor::Kind::kUser, .id = "user_1"};
  ASSERT_TRUE(run(memory_->redact_version(place_, note.version, user)));
  const auto redacted = run(memory_->find_version(place_, note.version, View::kFull)).value();
  EXPECT_FALSE(redacted.content || redacted.path || redacted.sha256 || redacted.size_bytes);
  EXPECT_EQ(redacted.redacted_by, user);
  EXPECT_GT(*redacted.redacted_ms, redacted.created_ms);
  EXPECT_EQ(redacted.created_by, by(Provenance::kHuman).actor);
  EXPECT_EQ(redacted.created_ms, note.created_ms);
  EXPECT_EQ(redacted.operation, Operation::kCreated);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(run(memory_->redact_version(place_, note.version, {}))->redacted_ms,
            redacted.redacted_ms);
  EXPECT_EQ(run(memory_->find_store(place_))->bytes, 3);
}

TEST_F(VersionsTest, WhatAMemoryHoldsNowIsNotRedacted) {
  const Memory note = create("/a", "one");
  EXPECT_EQ(run(memory_->redact_version(place_, note.version, {})).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(run(memory_->find(place_, note.id, View::kFull))->content, "one");
  EXPECT_EQ(run(memory_->find_store(place_))->bytes, 3);
  EXPECT_EQ(run(memory_->redact_version(place_, "memver_x", {})).error().code,
            ErrorCode::kNotFound);
  ASSERT_TRUE(run(memory_->remove(place_, note.id, std::nullopt, {})));
  EXPECT_TRUE(run(memory_->redact_version(place_, note.version, {}))->redacted_ms);
}

}  // namespace
}  // namespace pons::memory
