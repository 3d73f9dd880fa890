#include "pons/budget/keys.h"

#include <gmock/gmock.h>

#include "budget_fixture.h"
#include "key_rows.h"

namespace pons::budget {
namespace {

using ::testing::SizeIs;
using ::testing::StartsWith;

class KeysTest : public BudgetTest {
 protected:
  void SetUp() override { open(); }
  Keys& keys() { return book_->keys(); }
  NewKey make(KeyWish wish) {
    wish.project_id = "default";
    auto made = run(keys().create(std::move(wish)));
    EXPECT_TRUE(made) << made.error().describe();
    return made ? std::move(*made) : NewKey{};
  }
  ErrorCode refusal(KeyWish wish) {
    const auto made = run(keys().create(std::move(wish)));
    EXPECT_FALSE(made);
    return made ? ErrorCode::kInternal : made.error().code;
  }
};

TEST_F(KeysTest, AKeyIsFoundByItsSecretOfWhichOnlyTheHashIsKept) {
  const NewKey made = make({.kind = KeyKind::kAgent, .name = "reviewer"});
  EXPECT_THAT(made.key.id, StartsWith("mk_"));
  EXPECT_THAT(std::string(made.text.reveal()), StartsWith("ponsm_"));
  EXPECT_EQ(made.text.size(), 46U);
  EXPECT_EQ((*keys().find_by_secret(made.text.reveal()))->id, made.key.id);
  const std::string digits(made.text.reveal().substr(kSecretPrefix.size()));
  EXPECT_EQ(rows("SELECT 1 FROM model_keys WHERE instr(hash, '" + digits + "') > 0").size(), 0U);
  open();
  EXPECT_EQ((*keys().find_by_secret(made.text.reveal()))->name, "reviewer") << "after a restart";
}

TEST_F(KeysTest, WhatIsNoSecretOpensNothing) {
  const NewKey made = make({.name = "user"});
  const NewKey closed = make({.name = "group", .secrecy = KeyWish::Secrecy::kNone});
  EXPECT_TRUE(closed.text.empty());
  const std::string good(made.text.reveal());
  for (const std::string& text :
       {std::string(), std::string("ponsm_"), good.substr(6), good + "0", good.substr(0, 45),
        "PONSM_" + good.substr(6), "ponsm_" + std::string(40, 'A'), "ponsm_" + std::string(40, '0'),
        made.key.id, made.key.hash}) {
    const auto found = keys().find_by_secret(text);
    ASSERT_FALSE(found) << text;
    EXPECT_EQ(found.error().code, ErrorCode::kDenied);
  }
}

TEST_F(KeysTest, EveryProjectHasOneRootHoweverOftenItIsAskedFor) {
  const auto first = run(keys().ensure_root("default"));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->kind, KeyKind::kOrg);
  EXPECT_EQ(make({.name = "a"}).key.parent_id, first->id);
  EXPECT_EQ(run(keys().ensure_root("default"))->id, first->id);
  EXPECT_NE(run(keys().ensure_root("other"))->id, first->id);
  open();
  EXPECT_EQ(run(keys().ensure_root("default"))->id, first->id);
  EXPECT_EQ(number("SELECT count(*) FROM model_keys WHERE parent_id IS NULL"), 2);
}

TEST_F(KeysTest, AKeyStandsOnlyBelowAHigherKindOfItsOwnProject) {
  const Key team = make({.kind = KeyKind::kTeam, .name = "team"}).key;
  const Key agent = make({.parent_id = team.id, .kind = KeyKind::kAgent, .name = "agent"}).key;
  EXPECT_EQ(refusal({.project_id = "default", .kind = KeyKind::kOrg, .name = "x"}),
            ErrorCode::kInvalid);
  EXPECT_EQ(
      refusal(
          {.project_id = "default", .parent_id = agent.id, .kind = KeyKind::kAgent, .name = "x"}),
      ErrorCode::kInvalid);
  EXPECT_EQ(
      refusal(
          {.project_id = "default", .parent_id = agent.id, .kind = KeyKind::kTeam, .name = "x"}),
      ErrorCode::kInvalid);
  EXPECT_EQ(
      refusal({.project_id = "other", .parent_id = team.id, .kind = KeyKind::kUser, .name = "x"}),
      ErrorCode::kInvalid);
  EXPECT_EQ(refusal({.project_id = "default", .parent_id = "mk_none", .name = "x"}),
            ErrorCode::kDenied);
  EXPECT_EQ(keys().path_of(agent), team.parent_id + "/" + team.id + "/" + agent.id);
}

TEST_F(KeysTest, FieldsThatCannotBeMeantAreRefused) {
  EXPECT_EQ(refusal({.project_id = "a/b", .name = "x"}), ErrorCode::kInvalid);
  EXPECT_EQ(refusal({.project_id = "default", .name = ""}), ErrorCode::kInvalid);
  EXPECT_EQ(refusal({.project_id = "default", .name = "a\nb"}), ErrorCode::kInvalid);
  EXPECT_EQ(refusal({.project_id = "default", .name = std::string(129, 'x')}), ErrorCode::kInvalid);
  EXPECT_EQ(refusal({.project_id = "default", .name = "x", .soft_percent = 0}),
            ErrorCode::kInvalid);
  EXPECT_EQ(refusal({.project_id = "default", .name = "x", .models = {"a b"}}),
            ErrorCode::kInvalid);
  EXPECT_EQ(refusal({.project_id = "default", .name = "x", .expires_ms = clock_.now_ms}),
            ErrorCode::kInvalid);
  EXPECT_EQ(refusal({.project_id = "default", .name = "x", .limits = {{.amount = -1}}}),
            ErrorCode::kInvalid);
  EXPECT_EQ(
      refusal({.project_id = "default", .name = "x", .limits = {{.amount = 1}, {.amount = 2}}}),
      ErrorCode::kInvalid);
}

TEST_F(KeysTest, ChildrenDieWithTheirParentAndStayDead) {
  const NewKey team = make({.kind = KeyKind::kTeam, .name = "team"});
  const NewKey user = make({.parent_id = team.key.id, .name = "user"});
  const NewKey session =
      make({.parent_id = user.key.id, .kind = KeyKind::kSession, .name = "session"});
  const NewKey other = make({.name = "other"});
  ASSERT_TRUE(run(keys().revoke(team.key.id)));
  for (int round = 0; round < 2; ++round) {
    for (const NewKey* key : {&team, &user, &session})
      EXPECT_EQ(keys().find_by_secret(key->text.reveal()).error().code, ErrorCode::kDenied);
    EXPECT_TRUE(keys().find_by_secret(other.text.reveal()));
    EXPECT_EQ(run(keys().revoke(team.key.id)).error().code, ErrorCode::kNotFound);
    open();
  }
  EXPECT_EQ(run(keys().update(user.key.id, {.name = "again"})).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(*run(keys().list({.project_id = "default"})), SizeIs(5)) << "revoked ones are listed";
}

TEST_F(KeysTest, AChildThatIsMadeWhileItsParentIsRevokedIsNotGood) {
  const Key team = make({.kind = KeyKind::kTeam, .name = "team"}).key;
  std::optional<Result<NewKey>> made;
  const auto create = [](Keys& on, KeyWish wish, std::optional<Result<NewKey>>& to) -> Task<> {
    to = co_await on.create(std::move(wish));
  };
  linux::TaskGroup group(*loop_);
  group.spawn(
      create(keys(), {.project_id = "default", .parent_id = team.id, .name = "late"}, made));
  ASSERT_TRUE(run(keys().revoke(team.id)));
  while (!made)
    run([](linux::Loop& loop) -> Task<int> {
      co_await loop.sleep_for(std::chrono::milliseconds(1));
      co_return 0;
    }(*loop_));
  EXPECT_EQ(number("SELECT count(*) FROM model_keys WHERE name = 'late' AND revoked IS NULL"), 0);
  if (*made) EXPECT_FALSE(keys().find((*made)->key.id));
}

TEST_F(KeysTest, TheRootStays) {
  const auto root = run(keys().ensure_root("default"));
  EXPECT_EQ(run(keys().revoke(root->id)).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(run(keys().update(root->id, {.expires_ms = clock_.now_ms + 1})).error().code,
            ErrorCode::kInvalid);
}

TEST_F(KeysTest, AnExpiredKeyIsRefusedAtOnceAndRevokedInPassing) {
  const NewKey user = make({.name = "user", .expires_ms = clock_.now_ms + 1000});
  const NewKey session =
      make({.parent_id = user.key.id, .kind = KeyKind::kSession, .name = "session"});
  EXPECT_TRUE(keys().find_by_secret(session.text.reveal()));
  clock_.now_ms += 1000;
  EXPECT_FALSE(keys().find_by_secret(user.text.reveal()));
  EXPECT_FALSE(keys().find_by_secret(session.text.reveal()));
  ASSERT_TRUE(run(keys().revoke_expired()));
  EXPECT_EQ(keys().size(), 1U);
}

TEST_F(KeysTest, ChangesHoldAfterARestart) {
  const Key user = make({.name = "user", .expires_ms = clock_.now_ms + 5000}).key;
  const std::vector<Limit> limits = {{.what = What::kTokens, .amount = 7, .window = Window::kHour}};
  const auto changed =
      run(keys().update(user.id, {.limits = limits, .models = {{"claude-*"}}, .expires_ms = 0}));
  ASSERT_TRUE(changed) << changed.error().describe();
  open();
  const Key* found = *keys().find(user.id);
  EXPECT_EQ(found->limits, limits);
  EXPECT_EQ(found->name, "user");
  EXPECT_EQ(found->expires_ms, std::nullopt);
  EXPECT_TRUE(keys().may_call(*found, "claude-opus-5"));
  EXPECT_EQ(keys().may_call(*found, "gpt-5").error().code, ErrorCode::kDenied);
}

TEST_F(KeysTest, OfTwoChangesAtTheSameTimeNoneIsLost) {
  const Key user = make({.name = "user"}).key;
  const std::vector<Limit> limits = {{.what = What::kTokens, .amount = 7, .window = Window::kHour}};
  const auto rename = [](Keys& on, std::string id, bool& done) -> Task<> {
    done = (co_await on.update(std::move(id), {.name = "renamed"})).has_value();
  };
  bool renamed = false;
  linux::TaskGroup other(*loop_);
  other.spawn(rename(keys(), user.id, renamed));
  EXPECT_TRUE(run(keys().update(user.id, {.limits = limits})));
  EXPECT_TRUE(renamed);
  for (int round = 0; round < 2; ++round) {
    const Key* found = *keys().find(user.id);
    EXPECT_EQ(found->name, "renamed");
    EXPECT_EQ(found->limits, limits);
    open();
  }
}

TEST_F(KeysTest, AModelMustBeAllowedAllTheWayUp) {
  const Key team =
      make({.kind = KeyKind::kTeam, .name = "team", .models = {"claude-*", "gpt-5"}}).key;
  const Key user = make({.parent_id = team.id, .name = "user", .models = {"*"}}).key;
  EXPECT_TRUE(keys().may_call(user, "claude-x"));
  EXPECT_TRUE(keys().may_call(user, "gpt-5"));
  EXPECT_FALSE(keys().may_call(user, "gpt-5-pro"));
}

TEST_F(KeysTest, AListMayLeaveOutWhatWasRevoked) {
  const Key gone = make({.name = "gone"}).key;
  make({.name = "good"});
  ASSERT_TRUE(run(keys().revoke(gone.id)));
  const auto good = run(keys().list({.project_id = "default", .which = KeyList::Which::kGood}));
  EXPECT_THAT(*good, SizeIs(2)) << "the project's own, and the other";
  for (const Key& key : *good) EXPECT_NE(key.id, gone.id);
}

TEST_F(KeysTest, AListComesInPages) {
  for (int i = 0; i < 5; ++i) make({.name = "user"});
  const auto first = run(keys().list({.project_id = "default", .rows_max = 4}));
  ASSERT_THAT(*first, SizeIs(4));
  EXPECT_THAT(*run(keys().list({.project_id = "default", .after = first->back().id})), SizeIs(2));
  const auto root = run(keys().ensure_root("default"));
  EXPECT_THAT(*run(keys().list({.project_id = "default", .parent_id = root->id})), SizeIs(5));
  EXPECT_THAT(*run(keys().list({.project_id = "other"})), SizeIs(0));
}

TEST(KeyPatterns, AStarStandsForAnything) {
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("a*c", "abc"));
  EXPECT_TRUE(matches_pattern("a*c", "ac"));
  EXPECT_TRUE(matches_pattern("*-mini*", "gpt-5-mini-2025"));
  EXPECT_TRUE(matches_pattern("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(matches_pattern("a*c", "abd"));
  EXPECT_FALSE(matches_pattern("abc", "abcd"));
  EXPECT_FALSE(matches_pattern("abc", "ab"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_FALSE(matches_pattern("A", "a"));
}

// ---- agents

TEST_F(KeysTest, AnAgentHasOneKeyBelowTheRootAndNobodyCanCallWithIt) {
  const Key root = *run(keys().ensure_root("default"));
  const Key agent = *run(keys().ensure_agent("default", "Pr\u00fcfer"));
  EXPECT_EQ(agent.kind, KeyKind::kAgent);
  EXPECT_EQ(agent.name, "Pr\u00fcfer");
  EXPECT_EQ(agent.parent_id, root.id);
  EXPECT_TRUE(agent.hash.empty());
  EXPECT_EQ(run(keys().ensure_agent("default", "Pr\u00fcfer"))->id, agent.id);
  EXPECT_NE(run(keys().ensure_agent("default", "other"))->id, agent.id);
  EXPECT_NE(run(keys().ensure_agent("elsewhere", "Pr\u00fcfer"))->id, agent.id);
  open();
  EXPECT_EQ(run(keys().ensure_agent("default", "Pr\u00fcfer"))->id, agent.id) << "after a restart";
  EXPECT_EQ(number("SELECT count(*) FROM model_keys WHERE kind = 'agent'"), 3);
}

TEST_F(KeysTest, AnAgentWhoseKeyWasRevokedStaysOut) {
  const Key agent = *run(keys().ensure_agent("default", "a"));
  ASSERT_TRUE(run(keys().revoke(agent.id)));
  EXPECT_EQ(run(keys().ensure_agent("default", "a")).error().code, ErrorCode::kDenied);
  open();
  EXPECT_EQ(run(keys().ensure_agent("default", "a")).error().code, ErrorCode::kDenied);
}

TEST_F(KeysTest, AnyNameOfAnAgentWillDoAndTooManyAreTheProjectItself) {
  EXPECT_EQ(run(keys().ensure_agent("default", std::string(300, 'x')))->name.size(), 128U);
  EXPECT_EQ(run(keys().ensure_agent("default", "a\nb"))->name, "a b");
  const std::string root = run(keys().ensure_root("default"))->id;
  for (std::size_t i = 2; i < kAgentsMax; ++i)
    ASSERT_NE(run(keys().ensure_agent("default", std::to_string(i)))->id, root);
  EXPECT_EQ(run(keys().ensure_agent("default", "one more"))->id, root);
  EXPECT_NE(run(keys().ensure_agent("default", "5"))->id, root) << "who has one keeps it";
  EXPECT_NE(run(keys().ensure_agent("elsewhere", "one more"))->id, root);

  ASSERT_TRUE(run(keys().revoke(run(keys().ensure_agent("default", "5"))->id)));
  ASSERT_NE(run(keys().ensure_agent("default", "one more"))->id, root) << "there is room again";
  EXPECT_EQ(run(keys().ensure_agent("default", "5")).error().code, ErrorCode::kDenied);
}

}  // namespace
}  // namespace pons::budget
