// What a warden makes of the death of another process, or of its own, at the worst moment.

#include "namespaces_fixture.h"
#include "pons/linux/simulated_time.h"

namespace pons::sandbox {
namespace {

class NamespacesFaultsTest : public NamespacesTest {
 protected:
  FakeSpawner::Box& box() { return host_.boxes.begin()->second; }
  spawner::View last_switch() const { return host_.asked(RequestKind::kSwitchView).back().view; }

  template <class T>
  static Task<> keep(Task<T> task, std::optional<T>& value) {
    value.emplace(co_await std::move(task));
  }

  // Begins the task, and kills the warden while it waits for what is lost.
  template <class T>
  void kill_during(Task<T> task) {
    {
      linux::TaskGroup group(*loop_);
      group.spawn(ignore(std::move(task)));
      pass();
      group.cancel_all();
    }
    kill_warden();
    host_.lost_requests.clear();
    host_.lost_answers.clear();
    start_warden();
  }
};

TEST_F(NamespacesFaultsTest, ACheckpointThatNobodyHeardOfIsThere) {
  create();
  host_.lost_answers = {RequestKind::kSwitchView};
  kill_during(provider_->checkpoint("one", "a"));
  EXPECT_EQ(must(provider_->inspect("one")).checkpoints, std::vector<std::string>{"a"});
  must(provider_->checkpoint("one", "b"));
  const spawner::View view = last_switch();
  EXPECT_EQ(view.upper, 3U);
  ASSERT_EQ(view.layer_count, 2U);
  EXPECT_EQ(view.layers[0].number, 2U);
  EXPECT_EQ(view.layers[1].number, 1U);
}

TEST_F(NamespacesFaultsTest, ARollbackThatNobodyHeardOfIsNotUndone) {
  create();
  must(provider_->checkpoint("one", "a"));
  must(provider_->checkpoint("one", "b"));
  host_.lost_answers = {RequestKind::kSwitchView};
  kill_during(provider_->rollback("one", "a"));
  must(provider_->checkpoint("one", "c"));
  const spawner::View view = last_switch();
  EXPECT_EQ(view.upper, 5U);
  ASSERT_EQ(view.layer_count, 2U);  // what was written since the rollback, and what was before "a"
  EXPECT_EQ(view.layers[0].number, 4U);
  EXPECT_EQ(view.layers[1].number, 1U);
}

TEST_F(NamespacesFaultsTest, ASwitchThatNeverWasIsForgottenAndItsNumberNotUsedAgain) {
  create();
  host_.lost_requests = {RequestKind::kSwitchView};
  kill_during(provider_->checkpoint("one", "a"));
  EXPECT_TRUE(must(provider_->inspect("one")).checkpoints.empty());
  must(provider_->checkpoint("one", "b"));
  const spawner::View view = last_switch();
  EXPECT_EQ(view.upper, 3U);
  ASSERT_EQ(view.layer_count, 1U);
  EXPECT_EQ(view.layers[0].number, 1U);
}

TEST_F(NamespacesFaultsTest, ASwitchWhoseSpawnerDiedIsLookedUpAndSucceeds) {
  create();
  host_.lost_answers = {RequestKind::kSwitchView};
  linux::TaskGroup group(*loop_);
  std::optional<Result<std::string>> done;
  group.spawn(keep(provider_->checkpoint("one", "a"), done));
  pass();
  EXPECT_FALSE(done);
  host_.lost_answers.clear();
  host_.restart();
  pass();
  ASSERT_TRUE(done);
  EXPECT_TRUE(*done) << done->error().describe();
  EXPECT_EQ(must(provider_->inspect("one")).checkpoints, std::vector<std::string>{"a"});
}

TEST_F(NamespacesFaultsTest, WhatNobodyKnowsYetIsAskedBeforeTheNextChange) {
  create();
  const linux::SimulatedTime time(*loop_);
  host_.lost_answers = {RequestKind::kSwitchView, RequestKind::kFindView};
  EXPECT_EQ(refused(provider_->checkpoint("one", "a")).code, ErrorCode::kTimeout);
  host_.lost_answers.clear();
  must(provider_->checkpoint("one", "b"));
  EXPECT_EQ(must(provider_->inspect("one")).checkpoints, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(last_switch().layer_count, 2U);
}

TEST_F(NamespacesFaultsTest, WhatASpawnerLeftFrozenWhenItDiedRunsAgain) {
  create();
  box().frozen = true;
  cell().thaw_or_freeze(true);
  host_.restart();
  pass();
  EXPECT_FALSE(box().frozen);
  EXPECT_EQ(must(execute("one", {.argv = {"echo", "x"}})).output, "x\n");
}

TEST_F(NamespacesFaultsTest, ASandboxThatStayedFrozenIsThawedAndNotEndedAsSilent) {
  create();
  must(execute("one", {.argv = {"echo", "x"}}));
  const linux::SimulatedTime time(*loop_);
  box().frozen = true;
  cell().thaw_or_freeze(true);
  EXPECT_EQ(refused(execute("one", {.argv = {"echo", "y"}})).code, ErrorCode::kTimeout);
  EXPECT_EQ(must(execute("one", {.argv = {"echo", "z"}})).output, "z\n");
}

TEST_F(NamespacesFaultsTest, ASandboxThatIsSilentWithoutBeingFrozenEndsAndSaysWhy) {
  create();
  must(execute("one", {.argv = {"echo", "x"}}));
  const linux::SimulatedTime time(*loop_);
  cell().silent = true;
  EXPECT_EQ(refused(execute("one", {.argv = {"echo", "y"}})).code, ErrorCode::kUnavailable);
  const SandboxInfo info = must(provider_->inspect("one"));
  EXPECT_EQ(info.state, State::kEnded);
  EXPECT_EQ(info.ended_by, "silent");
  const Error error = refused(execute("one", {.argv = {"echo", "y"}}));
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_NE(error.message.find(info.end_reason), std::string::npos) << error.message;
}

TEST_F(NamespacesFaultsTest, OneThatWasBeingPausedIsPausedForTheNextWarden) {
  create();
  host_.lost_answers = {RequestKind::kFreeze};
  kill_during(provider_->pause("one"));
  EXPECT_EQ(must(provider_->inspect("one")).state, State::kPaused);
  EXPECT_TRUE(box().frozen);
  must(provider_->resume("one"));
  EXPECT_EQ(must(execute("one", {.argv = {"echo", "x"}})).output, "x\n");
}

TEST_F(NamespacesFaultsTest, OneThatWasBeingFrozenForIdlenessRunsForTheNextWarden) {
  create({.id = "one", .limits = {.freeze_after = Milliseconds(100)}});
  host_.lost_answers = {RequestKind::kFreeze};
  for (int i = 0; i < 1'000 && !box().frozen; ++i) pass(std::chrono::milliseconds(5));
  ASSERT_TRUE(box().frozen);
  kill_warden();
  host_.lost_answers.clear();
  start_warden();
  EXPECT_EQ(must(execute("one", {.argv = {"echo", "x"}})).output, "x\n");
}

TEST_F(NamespacesFaultsTest, WhatAKilledWardenHeldForAForkIsLetGo) {
  create();
  host_.lost_requests = {RequestKind::kCreate};
  kill_during(provider_->fork("one", {.id = "two"}));
  must(provider_->checkpoint("one", "a"));
  EXPECT_TRUE(run(provider_->commit("one", "a")));
  for (int i = 0; i < 1'000 && host_.asked(RequestKind::kMergeLayers).empty(); ++i)
    pass(std::chrono::milliseconds(5));
  EXPECT_FALSE(host_.asked(RequestKind::kMergeLayers).empty());
}

// ---- asked again after a lost answer

TEST_F(NamespacesFaultsTest, AForkIsFoundAgainWhateverBecameOfItsOrigin) {
  create();
  must(provider_->fork("one", {.id = "two"}));
  must(provider_->pause("one"));
  EXPECT_EQ(must(provider_->fork("one", {.id = "two"})).id, "two");
  EXPECT_TRUE(run(provider_->destroy("one")));
  EXPECT_EQ(must(provider_->fork("one", {.id = "two"})).id, "two");
  EXPECT_EQ(refused(provider_->fork("one", {.id = "three"})).code, ErrorCode::kNotFound);
}

TEST_F(NamespacesFaultsTest, ATransactionThatIsOverIsNotBegunAgainAfterARestart) {
  create();
  const JobSpec job{
      .id = "j", .argv = {"echo", "x"}, .transaction = Transaction::kRollbackOnFailure};
  must(execute("one", job));
  kill_warden();
  start_warden();
  EXPECT_EQ(must(execute("one", job)).output, "x\n");
  EXPECT_EQ(host_.asked(RequestKind::kSwitchView).size(), 1U);
}

TEST_F(NamespacesFaultsTest, ATransactionWhoseCommandWasNeverBegunStandsInNobodysWay) {
  create();
  cell().silent = true;
  kill_during(provider_->execute(
      "one", {.id = "lost", .argv = {"wait"}, .transaction = Transaction::kRollbackAlways}));
  cell().silent = false;
  pass();
  EXPECT_TRUE(must(execute("one", {.argv = {"fail"}, .transaction = Transaction::kRollbackAlways}))
                  .end->rolled_back);
}

// ---- transactions

TEST_F(NamespacesFaultsTest, ATransactionWaitsForTheEndOfAnother) {
  create();
  const JobSpec first{
      .id = "first", .argv = {"wait"}, .transaction = Transaction::kRollbackOnFailure};
  must(provider_->execute("one", first));
  std::optional<Result<Ran>> second;
  linux::TaskGroup group(*loop_);
  group.spawn(keep(execute("one", {.id = "second",
                                   .argv = {"echo", "x"},
                                   .transaction = Transaction::kRollbackOnFailure}),
                   second));
  pass();
  EXPECT_EQ(cell().starts, 1);
  cell().end(cell().jobs["first"], cell::Ended::kExit, 1);
  for (int i = 0; i < 1'000 && !second; ++i) pass(std::chrono::milliseconds(5));
  ASSERT_TRUE(second && *second);
  EXPECT_EQ((*second)->output, "x\n");
}

TEST_F(NamespacesFaultsTest, ATransactionBesideOneThatDoesNotEndIsAConflict) {
  create();
  must(provider_->execute(
      "one", {.id = "long", .argv = {"wait"}, .transaction = Transaction::kRollbackOnFailure}));
  const linux::SimulatedTime time(*loop_);
  const Error error = refused(
      provider_->execute("one", {.argv = {"wait"}, .transaction = Transaction::kRollbackAlways}));
  EXPECT_EQ(error.code, ErrorCode::kConflict);
  EXPECT_NE(error.message.find("long"), std::string::npos);
  EXPECT_EQ(host_.asked(RequestKind::kSwitchView).size(), 1U);
}

// ---- limits

TEST_F(NamespacesTest, TheDiskInMemoryLeavesRoomForWhatTheKernelNotesOfEachFile) {
  constexpr std::uint64_t kRoom = (512ULL - 32 - 64) << 20;
  const auto made = [&](const char* id, Limits limits) {
    create({.id = id, .limits = limits});
    return host_.asked(RequestKind::kCreate).back().create.limits;
  };
  const auto usual = made("usual", {});
  EXPECT_EQ(usual.disk_inodes, usual.disk_bytes / 4096);
  EXPECT_LE(usual.disk_bytes + usual.disk_inodes * 1280, kRoom);
  EXPECT_GT(usual.disk_bytes, 300ULL << 20);
  // Whoever names a size has fewer files, not a refusal.
  const auto large = made("large", {.disk_bytes = 380ULL << 20});
  EXPECT_LE(large.disk_bytes + large.disk_inodes * 1280, kRoom);
  EXPECT_GE(large.disk_inodes, (380ULL << 20) / 16'384);
  const auto files = made("files", {.disk_inodes = 200'000});
  EXPECT_EQ(files.disk_inodes, 200'000U);
  EXPECT_LE(files.disk_bytes + files.disk_inodes * 1280, kRoom);
  for (const Limits& limits : {Limits{.disk_bytes = 410ULL << 20},
                               Limits{.disk_bytes = 256ULL << 20, .disk_inodes = 200'000}})
    EXPECT_EQ(refused(provider_->create({.limits = limits})).code, ErrorCode::kInvalid);
  // Other limits of one that stands do not touch its disk.
  EXPECT_TRUE(run(provider_->set_limits("large", {.memory_bytes = 1ULL << 30})));
}

}  // namespace
}  // namespace pons::sandbox
