#include <ranges>

#include "namespaces_fixture.h"
#include "notes.h"

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

TEST_F(NamespacesTest, ArgumentsTooLongForAMessageAreALimitWithAdvice) {
  create();
  const Error error = refused(provider_->execute("one", {.argv = {std::string(200000, 'x')}}));
  EXPECT_EQ(error.code, ErrorCode::kLimit);
  EXPECT_NE(error.message.find("file"), std::string::npos);
}

TEST_F(NamespacesTest, KilledForMemoryIsToldFromKilledByACaller) {
  create();
  host_.oom_kills = 1;
  EXPECT_EQ(must(execute("one", {.argv = {"killed"}})).end->outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(must(execute("one", {.argv = {"killed"}})).end->outcome, Outcome::kSignal);
}

TEST_F(NamespacesTest, JobsSurviveARestartOfTheWarden) {
  create({.id = "one", .labels = {{"a", "b"}}});
  must(provider_->execute("one", {.id = "job", .argv = {"wait"}}));
  must(provider_->checkpoint("one", "before"));
  kill_warden();
  cell().print(cell().jobs["job"], "meanwhile");
  start_warden();
  const SandboxInfo info = must(provider_->inspect("one"));
  EXPECT_EQ(info.labels.at("a"), "b");
  EXPECT_EQ(info.checkpoints, std::vector<std::string>{"before"});
  EXPECT_EQ(info.jobs_running, 1U);
  auto stream = must(provider_->attach("one", "job", {}));
  cell().end(cell().jobs["job"], cell::Ended::kExit, 0);
  EXPECT_EQ(must(follow(std::move(stream))).output, "meanwhile");
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
      if (key != bad && box.cell->claim.starts_with(std::string(8, '\0') + "three"))
        box.cell->garbage = garbage;
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
  pass();
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

TEST_F(NamespacesTest, AnIdleSandboxEndsButNotWhileAJobRuns) {
  create({.id = "busy", .limits = {.idle_max = Milliseconds(50)}});
  must(provider_->execute("busy", {.argv = {"wait"}}));
  create({.id = "idle", .limits = {.idle_max = Milliseconds(50)}});
  pass(std::chrono::milliseconds(300));
  EXPECT_EQ(must(provider_->inspect("idle")).state, State::kEnded);
  EXPECT_EQ(must(provider_->inspect("busy")).state, State::kRunning);
}

TEST_F(NamespacesTest, ATemplateInUseCannotBeRemoved) {
  TemplateInfo info{.name = "t", .kind = "oci", .layers = {std::string(64, 'a')}};
  EXPECT_TRUE(run(provider_->put_template(info)));
  create({.id = "one", .template_name = "t"});
  EXPECT_EQ(refused(provider_->remove_template("t")).code, ErrorCode::kConflict);
  EXPECT_TRUE(run(provider_->destroy("one")));
  EXPECT_EQ(must(provider_->remove_template("t")), info.layers);
}

TEST_F(NamespacesTest, SnapshotsStandOnTheTemplatesLayers) {
  create();
  const TemplateInfo info = must(provider_->snapshot("one", "snap"));
  ASSERT_EQ(info.layers.size(), 2U);
  EXPECT_EQ(info.layers[1], std::string(64, '0'));
  create({.id = "two", .template_name = "snap"});
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
  for (int i = 0; i < 20'000 && host_.boxes.empty(); ++i) pass();
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
  pass();
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
