#include <fmt/format.h>

#include <ranges>

#include "namespaces_fixture.h"
#include "notes.h"
#include "pons/sandbox/network_gate.h"
#include "pons/telemetry/page.h"

namespace pons::sandbox {
namespace {

TEST_F(NamespacesTest, ABeginningIsToldBeforeTheJobDoesAnything) {
  create();
  auto stream = must(provider_->execute(
      "one", {.id = "j", .argv = {"wait"}, .announce_start = true, .label = "mine"}));
  const auto first = must(stream->next(loop_->now() + std::chrono::seconds(10)));
  ASSERT_TRUE(first);
  EXPECT_EQ(std::get<JobStarted>(*first).pid, 7U);
  EXPECT_EQ(must(provider_->list_jobs("one")).at(0).label, "mine");
  EXPECT_EQ(refused(provider_->execute("one", {.argv = {"wait"},
                                               .label = std::string(kJobLabelBytesMax + 1, 'x')}))
                .code,
            ErrorCode::kLimit);
}

TEST_F(NamespacesTest, TheSameCreateFindsTheSameSandbox) {
  create({.id = "one"});
  create({.id = "one"});
  EXPECT_EQ(host_.asked(RequestKind::kCreate).size(), 1U);
  EXPECT_EQ(must(provider_->list()).size(), 1U);
}

TEST_F(NamespacesTest, AFailedCreateLeavesNothingAndNamesTheStep) {
  host_.create_error = ENOMEM;
  const Error error = refused(provider_->create({.id = "one"}));
  EXPECT_STREQ(error.step, "seal the old view");
  EXPECT_EQ(error.os_error, ENOMEM);
  host_.create_error = 0;
  pass();
  EXPECT_TRUE(host_.boxes.empty());
  create({.id = "one"});
}

TEST_F(NamespacesTest, DiskInMemoryBeyondTheMemoryLimitIsRefusedWithAdvice) {
  const Error error = refused(provider_->create({.limits = {.disk_bytes = 1ULL << 30}}));
  EXPECT_EQ(error.code, ErrorCode::kInvalid);
  EXPECT_NE(error.message.find("disk_upper"), std::string::npos);
}

TEST_F(NamespacesTest, OutputErrorsAndExitCodeArrive) {
  create();
  const Ran ran = must(execute("one", {.argv = {"echo", "hi"}}));
  EXPECT_EQ(ran.output, "hi\n");
  ASSERT_TRUE(ran.end);
  EXPECT_EQ(ran.end->outcome, Outcome::kExit);
  EXPECT_EQ(must(execute("one", {.argv = {"complain", "no"}})).error, "no");
  EXPECT_EQ(must(execute("one", {.argv = {"fail"}})).end->code, 3);
}

TEST_F(NamespacesTest, AJobOfTheSameNameRunsOnce) {
  create();
  must(execute("one", {.id = "job", .argv = {"echo", "hi"}}));
  EXPECT_EQ(must(execute("one", {.id = "job", .argv = {"echo", "hi"}})).output, "hi\n");
  EXPECT_EQ(cell().starts, 1);
}

TEST_F(NamespacesTest, LongOutputIsWholeAndCanBeReadFromAnyOffset) {
  create();
  EXPECT_EQ(must(execute("one", {.id = "job", .argv = {"flood", "500000"}})).output.size(),
            500000U);
  const Ran rest = must(follow(must(provider_->attach("one", "job", {.output = 499990}))));
  EXPECT_EQ(rest.output.size(), 10U);
}

TEST_F(NamespacesTest, InputReachesTheJobWholeAndEnds) {
  create();
  const std::string input(300000, 'i');
  EXPECT_EQ(must(execute("one", {.argv = {"cat"}, .input = input})).output, input);
}

TEST_F(NamespacesTest, LaterInputFollowsTheFirst) {
  create();
  auto stream = must(provider_->execute("one", {.id = "j", .argv = {"cat"}, .input_open = true}));
  must(provider_->write_input("one", "j", "a"));
  must(provider_->write_input("one", "j", std::string(20000, 'b')));
  must(provider_->close_input("one", "j"));
  EXPECT_EQ(must(follow(std::move(stream))).output, "a" + std::string(20000, 'b'));
}

TEST_F(NamespacesTest, ArgumentsTooLongForAMessageAreRefusedWithAdvice) {
  create();
  const Error error = refused(provider_->execute("one", {.argv = {std::string(200000, 'x')}}));
  EXPECT_EQ(error.code, ErrorCode::kInvalid) << "to wait and ask again does not help";
  EXPECT_NE(error.message.find("file"), std::string::npos);
}

TEST_F(NamespacesTest, KilledForMemoryIsToldFromKilledByACaller) {
  create();
  host_.oom_kills = 1;
  EXPECT_EQ(must(execute("one", {.argv = {"killed"}})).end->outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(must(execute("one", {.argv = {"killed"}})).end->outcome, Outcome::kSignal);
}

TEST_F(NamespacesTest, AJobThatFailsAtALimitIsToldWhichAndOneThatDoesWellIsNot) {
  create({.id = "one", .limits = {.disk_bytes = 32ULL << 20}});
  host_.pids_refused = 5;
  EXPECT_EQ(must(execute("one", {.argv = {"echo", "x"}})).end->note, "");
  const JobInfo refused = *must(execute("one", {.argv = {"fail"}})).end;
  EXPECT_EQ(refused.outcome, Outcome::kExit);
  EXPECT_TRUE(refused.note.starts_with("too many processes: ")) << refused.note;
  EXPECT_EQ(must(execute("one", {.argv = {"fail"}})).end->note, "");
  host_.disk_bytes = 32ULL << 20;
  // Told of what was so before it was undone.
  const JobInfo full =
      *must(execute("one", {.argv = {"fail"}, .transaction = Transaction::kRollbackOnFailure})).end;
  EXPECT_TRUE(full.rolled_back);
  EXPECT_EQ(full.note, "disk full: 33554432 of 33554432 bytes are in use");
}

TEST_F(NamespacesTest, JobsSurviveARestartOfTheWarden) {
  create({.id = "one", .labels = {{"a", "b"}}});
  must(provider_->set_label("one", "c", "d"));
  EXPECT_EQ(must(provider_->set_label("one", "e", "f")).labels.at("e"), "f");
  must(provider_->set_label("one", "e", ""));
  EXPECT_FALSE(run(provider_->set_label("one", "long", std::string(1 << 20, 'x'))));
  must(provider_->execute("one", {.id = "job", .argv = {"wait"}}));
  must(provider_->checkpoint("one", "before"));
  kill_warden();
  cell().print(cell().jobs["job"], "meanwhile");
  start_warden();
  const SandboxInfo info = must(provider_->inspect("one"));
  EXPECT_EQ(info.labels, (std::map<std::string, std::string>{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(info.checkpoints, std::vector<std::string>{"before"});
  EXPECT_EQ(info.jobs_running, 1U);
  auto stream = must(provider_->attach("one", "job", {}));
  cell().end(cell().jobs["job"], cell::Ended::kExit, 0);
  EXPECT_EQ(must(follow(std::move(stream))).output, "meanwhile");
}

TEST_F(NamespacesTest, OneThatEndsWithTheWardenIsNotOnRecord) {
  create({.id = "kept"});
  create({.id = "brief", .ephemeral = true});
  EXPECT_EQ(must(execute("brief", {.argv = {"echo", "x"}})).output, "x\n");
  EXPECT_EQ(Notes(settings_.state_dir + "/sandboxes").load().size(), 1U);
  kill_warden();
  start_warden();
  const auto left = must(provider_->list());
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].id, "kept");
  pass();
  EXPECT_EQ(host_.boxes.size(), 1U);
}

TEST_F(NamespacesTest, OneMadeForAJobIsOnRecordWhenTheJobHasBegun) {
  const SandboxInfo info = must(provider_->create_for_job({.id = "one"}));
  EXPECT_EQ(info.id, "one");
  must(provider_->execute("one", {.id = "job", .argv = {"wait"}}));
  kill_warden();
  start_warden();
  EXPECT_EQ(must(provider_->inspect("one")).jobs_running, 1U);
}

TEST_F(NamespacesTest, OneThatIsDestroyedBeforeItIsOnRecordLeavesNoRecord) {
  must(provider_->create_for_job({.id = "one"}));
  must(provider_->destroy("one"));
  pass();
  EXPECT_TRUE(Notes(settings_.state_dir + "/sandboxes").load().empty());
  EXPECT_TRUE(host_.boxes.empty());
}

TEST_F(NamespacesTest, ARestartForgetsWhatIsGoneAndDestroysWhatNobodyKnows) {
  create({.id = "one"});
  kill_warden();
  host_.boxes.clear();
  host_.boxes[77].cell = std::make_unique<FakeCell>(*loop_);
  start_warden();
  EXPECT_TRUE(must(provider_->list()).empty());
  pass();
  EXPECT_TRUE(host_.boxes.empty());
  EXPECT_TRUE(Notes(settings_.state_dir + "/sandboxes").load().empty());
}

TEST_F(NamespacesTest, ALostConnectionIsMadeAgainAndTheJobGoesOn) {
  create();
  auto stream = must(provider_->execute("one", {.id = "job", .argv = {"wait"}}));
  cell().hang_up();
  cell().print(cell().jobs["job"], "still here");
  cell().end(cell().jobs["job"], cell::Ended::kExit, 0);
  EXPECT_EQ(must(follow(std::move(stream))).output, "still here");
}

TEST_F(NamespacesTest, ACellThatTalksNonsenseEndsItsSandboxAndNoOther) {
  create({.id = "one"});
  const std::uint64_t bad = host_.boxes.begin()->first;
  create({.id = "two"});
  for (const std::string& garbage :
       {std::string("x"), std::string(5000, '\0'), std::string(500, '\xff')}) {
    create({.id = "three"});
    pass();
    for (auto& [key, box] : host_.boxes)
      if (key != bad && box.cell->claim.contains("three")) box.cell->garbage = garbage;
    EXPECT_FALSE(run(execute("three", {.argv = {"echo", "x"}})));
    EXPECT_EQ(must(provider_->inspect("three")).state, State::kEnded);
  }
  EXPECT_EQ(must(execute("one", {.argv = {"echo", "x"}})).output, "x\n");
  EXPECT_EQ(must(execute("two", {.argv = {"echo", "x"}})).output, "x\n");
}

TEST_F(NamespacesTest, OffsetsThatGoBackwardsEndTheSandbox) {
  create();
  auto stream = must(provider_->execute("one", {.id = "job", .argv = {"wait"}}));
  cell().print(cell().jobs["job"], "abc");
  must(stream->next(loop_->now() + std::chrono::seconds(5)));
  cell().backwards = true;
  cell().end(cell().jobs["job"], cell::Ended::kExit, 0);
  const Ran ran = must(follow(std::move(stream)));
  ASSERT_TRUE(ran.end);
  EXPECT_EQ(ran.end->outcome, Outcome::kInterrupted);
}

TEST_F(NamespacesTest, DestroyInterruptsItsJobsAndIsIdempotent) {
  create();
  auto stream = must(provider_->execute("one", {.argv = {"wait"}}));
  EXPECT_TRUE(run(provider_->destroy("one")));
  EXPECT_TRUE(run(provider_->destroy("one")));
  EXPECT_EQ(must(follow(std::move(stream))).end->outcome, Outcome::kInterrupted);
  EXPECT_EQ(refused(provider_->inspect("one")).code, ErrorCode::kNotFound);
  pass();
  EXPECT_TRUE(host_.boxes.empty());
}

TEST_F(NamespacesTest, FilesComeBackAsWritten) {
  create();
  struct Bytes final : ByteSource {
    std::string left = std::string(200000, 'f');
    Task<Result<std::string>> next() override {
      std::string piece = left.substr(0, 70000);
      left.erase(0, piece.size());
      co_return piece;
    }
  };
  EXPECT_EQ(must(provider_->write_file("one", "/a", {}, std::make_unique<Bytes>())).size, 200000U);
  auto source = must(provider_->read_file("one", "/a", "", 0, 0));
  std::string all;
  for (std::string piece; !(piece = must(source->next())).empty();) all += piece;
  EXPECT_EQ(all, std::string(200000, 'f'));
  source = nullptr;
  const Error error = refused(provider_->stat_file("one", "/none", ""));
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.message, "no such file");
  EXPECT_TRUE(must(provider_->list_jobs("one")).empty());
  pass();
  EXPECT_TRUE(cell().jobs.empty());
}

TEST_F(NamespacesTest, ACheckpointFreezesTheUpperAndRollbackReturnsToIt) {
  create();
  must(provider_->checkpoint("one", "a"));
  auto switched = host_.asked(RequestKind::kSwitchView);
  ASSERT_EQ(switched.size(), 1U);
  EXPECT_EQ(switched[0].view.upper, 2U);
  EXPECT_EQ(switched[0].view.must_seal, 1U);
  EXPECT_EQ(switched[0].view.layers[0].number, 1U);
  EXPECT_TRUE(run(provider_->rollback("one", "a")));
  switched = host_.asked(RequestKind::kSwitchView);
  EXPECT_EQ(switched[1].view.upper, 3U);
  EXPECT_EQ(switched[1].view.must_seal, 0U);
  EXPECT_EQ(switched[1].view.layer_count, 1U);
  for (int i = 0; i < 1'000 && host_.asked(RequestKind::kDropLayers).empty(); ++i)
    pass(std::chrono::milliseconds(5));
  const auto dropped = host_.asked(RequestKind::kDropLayers);
  ASSERT_EQ(dropped.size(), 1U);
  EXPECT_EQ(dropped[0].view.layers[0].number, 2U);
}

TEST_F(NamespacesTest, BusyWritersAreAConflictAndChangeNothing) {
  create();
  host_.seal_error = EBUSY;
  const Error error = refused(provider_->checkpoint("one", "a"));
  EXPECT_EQ(error.code, ErrorCode::kConflict);
  EXPECT_TRUE(error.message.starts_with("busy_writers"));
  EXPECT_TRUE(must(provider_->inspect("one")).checkpoints.empty());
}

TEST_F(NamespacesTest, ATransactionUndoesAFailureAndKeepsASuccess) {
  create();
  JobSpec job{.argv = {"fail"}, .transaction = Transaction::kRollbackOnFailure};
  EXPECT_TRUE(must(execute("one", job)).end->rolled_back);
  job.argv = {"echo", "x"};
  EXPECT_FALSE(must(execute("one", job)).end->rolled_back);
  job.transaction = Transaction::kRollbackAlways;
  EXPECT_TRUE(must(execute("one", job)).end->rolled_back);
  EXPECT_TRUE(must(provider_->inspect("one")).checkpoints.empty());
}

TEST_F(NamespacesTest, ATransactionIsUndoneThoughNobodyFollowsAndTheWardenRestarts) {
  create();
  must(provider_->execute(
      "one", {.id = "job", .argv = {"wait"}, .transaction = Transaction::kRollbackAlways}));
  kill_warden();
  start_warden();
  must(provider_->list());
  cell().end(cell().jobs["job"], cell::Ended::kExit, 0);
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(host_.asked(RequestKind::kSwitchView).size(), 2U);
}

TEST_F(NamespacesTest, ForkedLayersAreKeptWhileTheForkNeedsThem) {
  create();
  const SandboxInfo fork = must(provider_->fork("one", {.id = "two"}));
  EXPECT_EQ(fork.id, "two");
  const auto made = host_.asked(RequestKind::kCreate);
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[1].view.layer_count, 1U);
  EXPECT_EQ(made[1].view.layers[0].sandbox, made[0].sandbox);
  must(provider_->checkpoint("one", "a"));
  EXPECT_TRUE(run(provider_->rollback("one", "a")));
  pass();
  for (const auto& dropped : host_.asked(RequestKind::kDropLayers))
    for (std::size_t i = 0; i < dropped.view.layer_count; ++i)
      EXPECT_NE(dropped.view.layers[i].number, 1U);
}

TEST_F(NamespacesTest, AForkOfABusySandboxStandsOnACopyAndLeavesItAlone) {
  create();
  host_.busy = true;
  host_.seal_error = EBUSY;
  must(provider_->fork("one", {.id = "two", .keep_checkpoint = "kept"}));
  EXPECT_TRUE(host_.copied_frozen);
  EXPECT_FALSE(host_.boxes.begin()->second.frozen);
  const auto copied = host_.asked(RequestKind::kCopyLayer);
  ASSERT_EQ(copied.size(), 1U);
  EXPECT_EQ(copied[0].argument, 1U);
  must(provider_->fork("one", {.id = "three", .keep_checkpoint = "kept"}));
  EXPECT_EQ(host_.asked(RequestKind::kCopyLayer).size(), 1U);
  const auto made = host_.asked(RequestKind::kCreate);
  ASSERT_EQ(made.size(), 3U);
  for (const std::size_t fork : {1, 2}) {
    ASSERT_EQ(made[fork].view.layer_count, 1U);
    EXPECT_EQ(made[fork].view.layers[0].number, copied[0].view.upper);
  }
  // Nothing of what they stand on is dropped, and everything once they are gone.
  EXPECT_TRUE(run(provider_->commit("one", "kept")));
  pass();
  EXPECT_TRUE(host_.asked(RequestKind::kDropLayers).empty());
  for (const char* fork : {"two", "three"}) EXPECT_TRUE(run(provider_->destroy(fork)));
  must(provider_->snapshot("one", "snap"));
  for (int i = 0; i < 1'000 && host_.asked(RequestKind::kDropLayers).empty(); ++i)
    pass(std::chrono::milliseconds(5));
  const auto dropped = host_.asked(RequestKind::kDropLayers);
  ASSERT_FALSE(dropped.empty());
  EXPECT_EQ(dropped.back().view.layer_count, 2U);
}

TEST_F(NamespacesTest, WithoutRoomForACopyAForkIsLikeACheckpoint) {
  create();
  host_.busy = true;
  host_.copy_error = ENOSPC;
  must(provider_->fork("one", {.id = "two"}));
  EXPECT_FALSE(host_.boxes.begin()->second.frozen);
  host_.seal_error = EBUSY;
  EXPECT_TRUE(refused(provider_->fork("one", {.id = "three"})).message.starts_with("busy_writers"));
  host_.copy_error = EIO;
  EXPECT_EQ(refused(provider_->fork("one", {.id = "three"})).os_error, EIO);
  EXPECT_EQ(must(execute("one", {.argv = {"echo", "x"}})).output, "x\n");
  EXPECT_EQ(refused(provider_->fork("one", {.checkpoint = "a", .keep_checkpoint = "b"})).code,
            ErrorCode::kInvalid);
}

TEST_F(NamespacesTest, AForkHasTheVariablesOfItsOriginAlsoAfterARestart) {
  create({.id = "one", .environment = {{"KEPT", "yes"}, {"ID", "one"}}});
  kill_warden();
  start_warden();
  must(provider_->fork("one", {.id = "two", .environment = {{"ID", "two"}}}));
  must(provider_->fork("two", {.id = "three"}));
  // Claims are told and not asked: what is asked next comes behind them.
  must(execute("three", {.argv = {"echo", "x"}}));
  int forks = 0;
  for (const auto& [key, box] : host_.boxes) {
    EXPECT_NE(box.cell->claim.find("KEPT=yes"), std::string::npos);
    forks += box.cell->claim.find("ID=two") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(forks, 2);
}

TEST_F(NamespacesTest, ManyCheckpointsAreMerged) {
  create();
  for (int i = 0; i < 14; ++i) {
    const std::string name = must(provider_->checkpoint("one", ""));
    EXPECT_TRUE(run(provider_->commit("one", name)));
    pass(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE(host_.asked(RequestKind::kMergeLayers).empty());
  EXPECT_LT(host_.asked(RequestKind::kSwitchView).back().view.layer_count, 13U);
}

TEST_F(NamespacesTest, OneLayerThatCannotBeMergedKeepsNoOthersApart) {
  create();
  host_.stiff_layer = 20;
  for (int i = 0; i < 80; ++i) {
    const std::string name = must(provider_->checkpoint("one", ""));
    EXPECT_TRUE(run(provider_->commit("one", name)));
    pass(std::chrono::milliseconds(5));
  }
  EXPECT_LT(host_.asked(RequestKind::kSwitchView).back().view.layer_count, 13U);
}

TEST_F(NamespacesTest, APausedSandboxTakesNoCallsUntilItIsResumed) {
  create();
  EXPECT_EQ(must(provider_->pause("one")).state, State::kPaused);
  const Error error = refused(execute("one", {.argv = {"echo", "x"}}));
  EXPECT_EQ(error.code, ErrorCode::kConflict);
  must(provider_->resume("one"));
  EXPECT_EQ(must(execute("one", {.argv = {"echo", "x"}})).output, "x\n");
}

TEST_F(NamespacesTest, OneThatIsPausedAtItsEndWaitsUntilItGetsMoreTime) {
  create({.id = "one", .limits = {.lifetime_max = Milliseconds(50), .pause_at_end = true}});
  pass(std::chrono::milliseconds(300));
  EXPECT_EQ(must(provider_->inspect("one")).state, State::kPaused);
  must(provider_->set_lifetime("one", Milliseconds(60'000), false));
  EXPECT_EQ(must(provider_->resume("one")).state, State::kRunning);
  EXPECT_EQ(must(execute("one", {.argv = {"echo", "x"}})).output, "x\n");
}

TEST_F(NamespacesTest, ANewLifetimeCountsFromNow) {
  create({.id = "one", .limits = {.lifetime_max = std::chrono::hours(1)}});
  must(provider_->set_lifetime("one", Milliseconds(50), false));
  pass(std::chrono::milliseconds(300));
  EXPECT_EQ(must(provider_->inspect("one")).state, State::kEnded);
  EXPECT_EQ(refused(provider_->set_lifetime("one", Milliseconds(-1), false)).code,
            ErrorCode::kInvalid);
}

TEST_F(NamespacesTest, AnIdleSandboxFreezesAndACallThawsIt) {
  create({.id = "one", .limits = {.freeze_after = Milliseconds(30)}});
  pass(std::chrono::milliseconds(200));
  EXPECT_TRUE(host_.boxes.begin()->second.frozen);
  EXPECT_EQ(must(execute("one", {.argv = {"echo", "x"}})).output, "x\n");
}

// It may have died in the middle of a copy, with jobs inside that nobody would ask for again.
TEST_F(NamespacesTest, WhatADeadProcessLeftFrozenRunsAgain) {
  create({.id = "one", .limits = {.freeze_after = Milliseconds(30)}});
  pass(std::chrono::milliseconds(200));
  ASSERT_TRUE(host_.boxes.begin()->second.frozen);
  kill_warden();
  ASSERT_TRUE(host_.asked(RequestKind::kThaw).empty());
  start_warden();
  // Sooner than it is idle again.
  for (int i = 0; i < 1'000 && host_.asked(RequestKind::kThaw).empty(); ++i)
    pass(std::chrono::milliseconds(1));
  EXPECT_FALSE(host_.asked(RequestKind::kThaw).empty());
}

TEST_F(NamespacesTest, AnIdleSandboxEndsButNotWhileAJobRuns) {
  create({.id = "busy", .limits = {.idle_max = Milliseconds(50)}});
  must(provider_->execute("busy", {.argv = {"wait"}}));
  create({.id = "idle", .limits = {.idle_max = Milliseconds(50)}});
  pass(std::chrono::milliseconds(300));
  EXPECT_EQ(must(provider_->inspect("idle")).state, State::kEnded);
  EXPECT_EQ(must(provider_->inspect("busy")).state, State::kRunning);
}

TEST_F(NamespacesTest, OneThatIsHeldIsNotIdleAndNeitherFreezesNorEnds) {
  create({.id = "one", .limits = {.idle_max = Milliseconds(60), .freeze_after = Milliseconds(30)}});
  auto held = provider_->hold("one");
  ASSERT_NE(held, nullptr);
  pass(std::chrono::milliseconds(300));
  EXPECT_FALSE(host_.boxes.begin()->second.frozen);
  EXPECT_TRUE(host_.asked(RequestKind::kFreeze).empty());
  EXPECT_EQ(must(provider_->inspect("one")).state, State::kRunning);
  held = nullptr;
  for (int i = 0; i < 1'000 && !host_.boxes.empty(); ++i) pass(std::chrono::milliseconds(5));
  EXPECT_EQ(must(provider_->inspect("one")).state, State::kEnded);
  EXPECT_EQ(provider_->hold("one"), nullptr);
}

TEST_F(NamespacesTest, ATemplateInUseCannotBeRemoved) {
  TemplateInfo info{.name = "t", .kind = "oci", .layers = {std::string(64, 'a')}};
  EXPECT_TRUE(run(provider_->put_template(info)));
  create({.id = "one", .template_name = "t"});
  EXPECT_EQ(refused(provider_->remove_template("t")).code, ErrorCode::kConflict);
  EXPECT_TRUE(run(provider_->destroy("one")));
  EXPECT_EQ(must(provider_->remove_template("t")), info.layers);
}

TEST_F(NamespacesTest, ATemplateHasAsManyLayersAsASandboxCanStandOnAndNoMore) {
  TemplateInfo info{.name = "t", .kind = "oci"};
  for (int i = 0; i < 32; ++i) info.layers.push_back(fmt::format("{:064x}", i + 1));
  EXPECT_TRUE(run(provider_->put_template(info)));
  create({.id = "one", .template_name = "t"});
  EXPECT_EQ(host_.asked(RequestKind::kCreate).back().create.template_layer_count, 33U);
  info.name = "u";
  info.layers.push_back(fmt::format("{:064x}", 33));
  EXPECT_EQ(refused(provider_->put_template(info)).code, ErrorCode::kInvalid);
}

TEST_F(NamespacesTest, TemplatesLieOnEachOtherByName) {
  const TemplateInfo info{
      .name = "tools", .kind = "oci", .layers = {std::string(64, 'a')}, .user = "root"};
  EXPECT_TRUE(run(provider_->put_template(info)));
  create({.id = "one", .template_name = "host+tools"});
  const auto made = host_.asked(RequestKind::kCreate).back().create;
  ASSERT_EQ(made.template_layer_count, 3U);
  EXPECT_EQ(made.template_layers[1].bytes[0], 0xAA);
  EXPECT_EQ(made.template_layers[2], spawner::Digest{});
  EXPECT_EQ(must(provider_->inspect("one")).template_name, "host+tools");
  EXPECT_TRUE(must(provider_->list_templates()).back().held_layers.empty());

  const Error unknown =
      refused(provider_->create({.id = "two", .template_name = "host+none+tools"}));
  EXPECT_EQ(unknown.code, ErrorCode::kNotFound);
  EXPECT_EQ(unknown.message, "there is no template \"none\"");
  EXPECT_EQ(refused(provider_->create({.template_name = "host+"})).code, ErrorCode::kNotFound);
}

TEST_F(NamespacesTest, APartOfAStackInUseIsNeitherRemovedNorReplaced) {
  const TemplateInfo info{.name = "t", .kind = "oci", .layers = {std::string(64, 'a')}};
  EXPECT_TRUE(run(provider_->put_template(info)));
  create({.id = "one", .template_name = "host+t"});
  EXPECT_EQ(refused(provider_->remove_template("t")).code, ErrorCode::kConflict);
  EXPECT_EQ(refused(provider_->put_template(info)).code, ErrorCode::kConflict);
  EXPECT_TRUE(run(provider_->destroy("one")));
  EXPECT_EQ(must(provider_->remove_template("t")), info.layers);
}

TEST_F(NamespacesTest, LayersOfASnapshotThatWasReplacedStayForTheStacksOnIt) {
  create();
  must(provider_->snapshot("one", "snap"));
  create({.id = "two", .template_name = "host+snap"});
  const TemplateInfo before = must(provider_->list_templates()).back();
  host_.snapshot_fill = 0x77;
  must(provider_->snapshot("one", "snap"));
  EXPECT_EQ(must(provider_->list_templates()).back().held_layers, std::vector{before.layers[0]});
}

TEST_F(NamespacesTest, WhatWaitsReadyOnAStackGoesWithEachOfItsParts) {
  kill_warden();
  settings_.warm_min = 1;
  start_warden();
  const TemplateInfo info{.name = "t", .kind = "oci", .layers = {std::string(64, 'a')}};
  const auto waiting = [&] {
    return std::ranges::count_if(host_.boxes, [](const auto& entry) {
      return entry.second.made.create.template_layer_count == 3;
    });
  };
  EXPECT_TRUE(run(provider_->put_template(info)));
  create({.id = "one", .template_name = "host+t"});
  EXPECT_TRUE(run(provider_->destroy("one")));
  for (int i = 0; i < 1'000 && waiting() != 1; ++i) pass(std::chrono::milliseconds(5));
  ASSERT_EQ(waiting(), 1);
  must(provider_->remove_template("t"));
  for (int i = 0; i < 1'000 && waiting() != 0; ++i) pass(std::chrono::milliseconds(5));
  EXPECT_EQ(waiting(), 0);
}

TEST_F(NamespacesTest, WhatWaitsReadyOnATemplateGoesWithIt) {
  kill_warden();
  settings_.warm_min = 1;
  start_warden();
  const TemplateInfo info{.name = "t", .kind = "oci", .layers = {std::string(64, 'a')}};
  const auto waiting = [&] {
    return std::ranges::count_if(host_.boxes, [](const auto& entry) {
      return entry.second.made.create.template_layer_count == 2 &&
             entry.second.made.create.template_layers[1].bytes[0] == 0xAA;
    });
  };
  for (const bool replaced : {false, true}) {
    EXPECT_TRUE(run(provider_->put_template(info)));
    create({.id = "one", .template_name = "t"});
    EXPECT_TRUE(run(provider_->destroy("one")));
    for (int i = 0; i < 1'000 && waiting() != 1; ++i) pass(std::chrono::milliseconds(5));
    ASSERT_EQ(waiting(), 1);
    EXPECT_TRUE(replaced ? run(provider_->put_template(info)).has_value()
                         : run(provider_->remove_template("t")).has_value());
    for (int i = 0; i < 1'000 && waiting() != 0; ++i) pass(std::chrono::milliseconds(5));
    EXPECT_EQ(waiting(), 0);
  }
}

TEST_F(NamespacesTest, WhatWasBeingBuiltForATemplateIsNotForTheNextOneOfItsLayers) {
  kill_warden();
  settings_.warm_min = 1;
  start_warden();
  pass();
  const TemplateInfo info{.name = "t", .kind = "oci", .layers = {std::string(64, 'a')}};
  EXPECT_TRUE(run(provider_->put_template(info)));
  create({.id = "cold", .template_name = "t"});
  // Beside the one that always waits: it, and another that is built and waits as well.
  const auto waits = [&] {
    const Known known = must(provider_->known());
    return known.keys.size() == 3 && known.disks_max == 0;
  };
  for (int i = 0; i < 1'000 && !waits(); ++i) pass(std::chrono::milliseconds(5));
  host_.hold_creates = true;
  ASSERT_TRUE(must(provider_->create({.id = "warm", .template_name = "t"})).warm);
  // The one that takes its place is being built while the template goes and comes.
  for (int i = 0; i < 1'000 && host_.held.empty(); ++i) pass(std::chrono::milliseconds(5));
  ASSERT_FALSE(host_.held.empty());
  const std::uint64_t old = host_.held.front().sandbox;
  EXPECT_TRUE(run(provider_->destroy("cold")));
  EXPECT_TRUE(run(provider_->destroy("warm")));
  must(provider_->remove_template("t"));
  EXPECT_TRUE(run(provider_->put_template(info)));
  linux::TaskGroup group(*loop_);
  group.spawn(ignore(provider_->create({.id = "next", .template_name = "t"})));
  pass();
  host_.release_creates();
  for (int i = 0; i < 1'000 && !asked_to_destroy(old); ++i) pass(std::chrono::milliseconds(5));
  EXPECT_TRUE(asked_to_destroy(old));
}

TEST_F(NamespacesTest, SnapshotsStandOnTheTemplatesLayers) {
  create();
  const TemplateInfo info = must(provider_->snapshot("one", "snap"));
  ASSERT_EQ(info.layers.size(), 2U);
  EXPECT_EQ(info.layers[1], std::string(64, '0'));
  create({.id = "two", .template_name = "snap"});
}

TEST_F(NamespacesTest, ASnapshotReplacesOneInUseWhoseLayersStay) {
  create();
  must(provider_->snapshot("one", "snap"));
  create({.id = "two", .template_name = "snap"});
  const TemplateInfo before = must(provider_->list_templates()).back();
  EXPECT_TRUE(before.held_layers.empty());
  host_.snapshot_fill = 0x77;
  must(provider_->snapshot("one", "snap"));
  const TemplateInfo after = must(provider_->list_templates()).back();
  EXPECT_NE(after.layers[0], before.layers[0]);
  EXPECT_EQ(after.held_layers, std::vector{before.layers[0]});
  EXPECT_TRUE(run(provider_->destroy("two")));
  EXPECT_TRUE(must(provider_->list_templates()).back().held_layers.empty());
}

TEST_F(NamespacesTest, AWaitingSandboxIsClaimedAndReplaced) {
  kill_warden();
  settings_.warm_min = 2;
  start_warden();
  pass();
  EXPECT_EQ(host_.boxes.size(), 2U);
  EXPECT_TRUE(must(provider_->create({.id = "one"})).warm);
  pass();
  EXPECT_EQ(host_.boxes.size(), 3U);
}

TEST_F(NamespacesTest, AWaitingSandboxThatDiedIsReplacedByANewOne) {
  kill_warden();
  settings_.warm_min = 1;
  start_warden();
  pass();
  ASSERT_EQ(host_.boxes.size(), 1U);
  cell().hang_up();
  pass();
  EXPECT_FALSE(must(provider_->create({.id = "one"})).warm);
  EXPECT_EQ(must(execute("one", {.argv = {"echo", "x"}})).output, "x\n");
}

// Gives each sandbox a stub of its own; the first cell dies meanwhile.
struct DeadlyGate final : NetworkGate {
  DeadlyGate(linux::Loop& l, FakeSpawner& h) : loop(l), host(h) {}
  Task<Result<std::map<std::string, std::string>>> attach(Attachment attachment) override {
    if (++attached == 1) {
      host.boxes.at(attachment.key).cell->hang_up();
      co_await loop.sleep_for(std::chrono::milliseconds(50));
    }
    co_return std::map<std::string, std::string>{{"TOKEN", fmt::format("stub-{}", attached)},
                                                 {"MINE", "theirs"}};
  }
  void detach(std::uint64_t key) override { detached.push_back(key); }
  void keep_only(std::vector<std::uint64_t> /*keys*/) override {}

  linux::Loop& loop;
  FakeSpawner& host;
  int attached = 0;
  std::vector<std::uint64_t> detached;
};

TEST_F(NamespacesTest, TheReplacementOfOneThatDiedWhileItWasClaimedHasNothingOfItsStubs) {
  kill_warden();
  DeadlyGate gate(*loop_, host_);
  settings_.warm_min = 1;
  settings_.network_gate = &gate;
  start_warden();
  const NetworkRequest network{.environment = "e"};
  gate.attached = 1;  // this one only makes the pool build others like it
  create({.id = "first", .network = network});
  EXPECT_TRUE(run(provider_->destroy("first")));
  const auto waiting = [&] {
    return host_.asked(RequestKind::kOpenNetwork).size() > 1 && host_.boxes.size() == 2;
  };
  for (int i = 0; i < 1'000 && !waiting(); ++i) pass(std::chrono::milliseconds(5));
  gate.attached = 0;
  create({.id = "one", .environment = {{"MINE", "own"}}, .network = network});
  ASSERT_EQ(gate.attached, 2);
  pass();
  const auto claimed = std::ranges::find_if(
      host_.boxes, [](const auto& entry) { return !entry.second.cell->claim.empty(); });
  ASSERT_NE(claimed, host_.boxes.end());
  const std::string& claim = claimed->second.cell->claim;
  EXPECT_NE(claim.find("TOKEN=stub-2"), std::string::npos);
  EXPECT_EQ(claim.find("stub-1"), std::string::npos);
  EXPECT_NE(claim.find("MINE=own"), std::string::npos);
  EXPECT_EQ(claim.find("theirs"), std::string::npos);
  kill_warden();  // before the gate goes
}

TEST_F(NamespacesTest, AWaitingSandboxThatDoesNotAnswerIsReplaced) {
  kill_warden();
  settings_.warm_min = 1;
  settings_.check_every = std::chrono::milliseconds(50);
  settings_.check_time = std::chrono::milliseconds(500);
  start_warden();
  pass();
  ASSERT_EQ(host_.boxes.size(), 1U);
  const std::uint64_t ill = host_.boxes.begin()->first;
  cell().silent = true;
  for (int i = 0; i < 20'000 && host_.boxes.contains(ill); ++i) pass();
  EXPECT_FALSE(host_.boxes.contains(ill));
  const auto another_waits = [&] {
    telemetry::Page page;
    provider_->write_metrics(page);
    return page.text().contains("\npons_sandbox_pool 1\n");
  };
  for (int i = 0; i < 20'000 && !another_waits(); ++i) pass();
  EXPECT_TRUE(must(provider_->create({.id = "one"})).warm);
}

TEST_F(NamespacesTest, OtherMemoryIsSetOnAWaitingSandboxWhoseDiskFits) {
  kill_warden();
  settings_.warm_min = 1;
  start_warden();
  pass();
  EXPECT_TRUE(
      must(provider_->create({.id = "one", .limits = {.memory_bytes = 600ULL << 20}})).warm);
  EXPECT_EQ(host_.asked(RequestKind::kSetLimits).size(), 1U);
}

TEST_F(NamespacesTest, KnownAreExactlyThoseTheSpawnerHasWaitingOnesIncluded) {
  kill_warden();
  settings_.warm_min = 2;
  start_warden();
  pass();
  create({.id = "one"});
  create({.id = "disk", .limits = {.disk_bytes = 64ULL << 20, .disk_upper = true}});
  // Until nothing is being built or taken down, which counts as a disk that may be.
  for (int i = 0; i < 1'000 && must(provider_->known()).disks_max != 1; ++i)
    pass(std::chrono::milliseconds(5));
  const Known known = must(provider_->known());
  const auto keys = host_.boxes | std::views::keys;
  EXPECT_GT(keys.size(), 2U);
  EXPECT_EQ(known.keys, std::set<std::uint64_t>(keys.begin(), keys.end()));
  EXPECT_EQ(known.disks_max, 1U);
}

TEST_F(NamespacesTest, ADiskIsKnownUntilTheLastForkOnItEnds) {
  create({.id = "disk", .limits = {.disk_bytes = 64ULL << 20, .disk_upper = true}});
  must(provider_->fork("disk", {.id = "child"}));
  must(provider_->destroy("disk"));
  pass();
  EXPECT_EQ(must(provider_->known()).keys.size(), 1U);
  EXPECT_EQ(must(provider_->known()).disks_max, 1U);
  must(provider_->destroy("child"));
  pass();
  EXPECT_TRUE(must(provider_->known()).keys.empty());
  EXPECT_EQ(must(provider_->known()).disks_max, 0U);
}

TEST_F(NamespacesTest, EndAllLeavesNothing) {
  create();
  struct Ending {
    static Task<int> all(NamespacesProvider& provider, TimePoint deadline) {
      co_await provider.end_all(deadline);
      co_return 0;
    }
  };
  run(Ending::all(*provider_, loop_->now() + std::chrono::seconds(5)));
  EXPECT_TRUE(host_.boxes.empty());
  EXPECT_FALSE(run(provider_->create({})));
}

}  // namespace
}  // namespace pons::sandbox
