#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "pons/base/check.h"
#include "pons/linux/loop.h"
#include "pons/sandbox/provider.h"

// What every implementation of Provider promises, as tests. A test program includes this header
// once and names the implementations:
//
//   INSTANTIATE_TEST_SUITE_P(Warden, ProviderPromises, testing::Values(ProviderFactory{…}));
//
// The sandboxes it makes are real: they need /bin/sh, cat, sleep and the like in the template.

namespace pons::sandbox {

struct ProviderFactory {
  std::string template_name = "host";
  // A provider on the loop. Called once per test; whatever it stands on must outlive the program or
  // be owned by the pointer.
  std::function<std::shared_ptr<Provider>(linux::Loop&)> make;
};

class ProviderPromises : public ::testing::TestWithParam<ProviderFactory> {
 protected:
  struct Ran {
    std::string output, error;
    std::optional<JobStarted> started;
    std::optional<JobInfo> end;
  };

  void SetUp() override {
    loop_ = std::move(*linux::Loop::create());
    provider_ = GetParam().make(*loop_);
    id_ = must(provider_->create({.template_name = GetParam().template_name})).id;
  }
  void TearDown() override {
    made_.push_back(id_);
    for (const std::string& id : made_) EXPECT_TRUE(run(provider_->destroy(id)));
    provider_ = nullptr;
  }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> value;
    linux::TaskGroup group(*loop_);
    group.spawn(finish(std::move(task), value));
    group.spawn(give_up());
    loop_->run();
    CHECK(value.has_value());
    return std::move(*value);
  }
  template <class T>
  T must(Task<Result<T>> task) {
    auto result = run(std::move(task));
    if (!result) ADD_FAILURE() << result.error().describe();
    CHECK(result.has_value());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }
  template <class T>
  ErrorCode refused(Task<Result<T>> task) {
    auto result = run(std::move(task));
    EXPECT_FALSE(result.has_value());
    return result ? ErrorCode::kInternal : result.error().code;
  }
  Ran sh(std::string line) { return run_job({.shell_line = std::move(line)}); }
  Ran run_job(JobSpec job) { return must(execute(id_, std::move(job))); }
  std::string content(std::string path) { return must(read_whole(id_, std::move(path))); }
  void write(std::string path, std::string bytes) {
    must(provider_->write_file(id_, std::move(path), {}, source(std::move(bytes))));
  }

  void wait_for_file(const std::string& name) {
    EXPECT_EQ(sh("for i in $(seq 500); do test -e ~/" + name + " && exit; sleep 0.02; done; exit 1")
                  .end->code,
              0)
        << name;
  }

  Task<Result<Ran>> follow(std::unique_ptr<JobStream> stream) {
    Ran ran;
    for (;;) {
      CO_TRY(auto event, co_await stream->next(loop_->now() + std::chrono::seconds(30)));
      if (!event) co_return ran;
      if (const auto* output = std::get_if<Output>(&*event)) {
        (output->stream == Output::Stream::kOutput ? ran.output : ran.error) += output->bytes;
      } else if (const auto* started = std::get_if<JobStarted>(&*event)) {
        EXPECT_TRUE(ran.output.empty() && ran.error.empty() && !ran.started);
        ran.started = *started;
      } else {
        ran.end = std::get<JobInfo>(*event);
      }
    }
  }
  Task<Result<Ran>> execute(std::string id, JobSpec job) {
    CO_TRY(auto stream, co_await provider_->execute(std::move(id), std::move(job)));
    co_return co_await follow(std::move(stream));
  }
  Task<Result<std::string>> read_whole(std::string id, std::string path) {
    CO_TRY(auto bytes, co_await provider_->read_file(std::move(id), std::move(path), "", 0, 0));
    std::string all;
    for (;;) {
      CO_TRY(const auto piece, co_await bytes->next());
      if (piece.empty()) co_return all;
      all += piece;
    }
  }
  static std::unique_ptr<ByteSource> source(std::string bytes) {
    struct Once final : ByteSource {
      explicit Once(std::string b) : left(std::move(b)) {}
      Task<Result<std::string>> next() override {
        std::string piece = left.substr(0, 50'000);
        left.erase(0, piece.size());
        co_return piece;
      }
      std::string left;
    };
    return std::make_unique<Once>(std::move(bytes));
  }

  std::unique_ptr<linux::Loop> loop_;
  std::shared_ptr<Provider> provider_;  // shared with what the factory keeps beside it
  std::string id_;
  std::vector<std::string> made_;  // further sandboxes, to be destroyed

 private:
  template <class T>
  Task<> finish(Task<T> task, std::optional<T>& value) {
    value.emplace(co_await std::move(task));
    loop_->stop();
  }
  Task<> give_up() {
    co_await loop_->sleep_for(std::chrono::seconds(60));
    loop_->stop();
  }
};

// ---- jobs

TEST_P(ProviderPromises, ExitCodesAndStreamsArriveApart) {
  const Ran ran = sh("echo out; echo err >&2; exit 7");
  EXPECT_EQ(ran.output, "out\n");
  EXPECT_EQ(ran.error, "err\n");
  ASSERT_TRUE(ran.end);
  EXPECT_EQ(ran.end->outcome, Outcome::kExit);
  EXPECT_EQ(ran.end->code, 7);
}

TEST_P(ProviderPromises, ArgumentsAndVariablesAreTakenAsTheyAre) {
  const Ran ran = run_job({.argv = {"/bin/sh", "-c", "printf %s \"$1$X\"", "sh", "a b'\"$\\"},
                           .environment = {{"X", "=;"}}});
  EXPECT_EQ(ran.output, "a b'\"$\\=;");
}

TEST_P(ProviderPromises, ASignalIsNamed) {
  EXPECT_EQ(sh("kill -TERM $$").end->outcome, Outcome::kSignal);
}

TEST_P(ProviderPromises, LongOutputIsWhole) {
  EXPECT_EQ(sh("head -c 3000000 /dev/zero").output, std::string(3'000'000, '\0'));
}

TEST_P(ProviderPromises, InputArrivesWholeAndEnds) {
  const std::string input(1'000'000, 'i');
  EXPECT_EQ(run_job({.argv = {"/bin/cat"}, .input = input}).output, input);
}

TEST_P(ProviderPromises, InputMayFollowLater) {
  auto stream =
      must(provider_->execute(id_, {.id = "cat", .argv = {"/bin/cat"}, .input_open = true}));
  EXPECT_TRUE(run(provider_->write_input(id_, "cat", "a")));
  EXPECT_TRUE(run(provider_->write_input(id_, "cat", "b")));
  EXPECT_TRUE(run(provider_->close_input(id_, "cat")));
  EXPECT_EQ(must(follow(std::move(stream))).output, "ab");
}

TEST_P(ProviderPromises, AJobOfTheSameNameRunsOnce) {
  const JobSpec job{.id = "once", .shell_line = "echo x >> ~/count; cat ~/count"};
  EXPECT_EQ(run_job(job).output, "x\n");
  EXPECT_EQ(run_job(job).output, "x\n");
}

TEST_P(ProviderPromises, AnEndedJobCanBeReadFromAnyOffset) {
  run_job({.id = "said", .shell_line = "printf 0123456789"});
  EXPECT_EQ(must(follow(must(provider_->attach(id_, "said", {.output = 7})))).output, "789");
  EXPECT_EQ(refused(provider_->attach(id_, "never", {})), ErrorCode::kNotFound);
}

TEST_P(ProviderPromises, LeavingAStreamDoesNotEndTheJob) {
  must(
      provider_->execute(id_, {.id = "long", .shell_line = "read x; echo $x", .input_open = true}));
  EXPECT_TRUE(run(provider_->write_input(id_, "long", "still\n")));
  EXPECT_EQ(must(follow(must(provider_->attach(id_, "long", {})))).output, "still\n");
}

TEST_P(ProviderPromises, ASilentJobIsATimeoutOfTheCallAndLosesNothing) {
  auto stream = must(provider_->execute(
      id_, {.id = "quiet", .shell_line = "read x; echo $x", .input_open = true}));
  EXPECT_EQ(refused(stream->next(loop_->now() + std::chrono::milliseconds(50))),
            ErrorCode::kTimeout);
  EXPECT_TRUE(run(provider_->write_input(id_, "quiet", "y\n")));
  EXPECT_EQ(must(follow(std::move(stream))).output, "y\n");
}

TEST_P(ProviderPromises, TimeoutAndOutputLimitAreNamed) {
  EXPECT_EQ(run_job({.shell_line = "sleep 60", .timeout = Milliseconds(100)}).end->outcome,
            Outcome::kTimeout);
  EXPECT_EQ(run_job({.shell_line = "yes", .output_bytes_max = 10'000}).end->outcome,
            Outcome::kOutputLimit);
}

TEST_P(ProviderPromises, ATerminalHasItsSize) {
  auto ran =
      run_job({.shell_line = "stty size", .terminal = TerminalSize{.rows = 33, .columns = 99}});
  EXPECT_NE(ran.output.find("33 99"), std::string::npos);
}

TEST_P(ProviderPromises, ATerminalLearnsOfItsNewSize) {
  auto stream = must(provider_->execute(
      id_,
      {.id = "sized",
       .shell_line = "trap 'stty size; exit' WINCH; echo > ~/ready; while :; do sleep 0.05; done",
       .terminal = TerminalSize{.rows = 20, .columns = 20}}));
  wait_for_file("ready");
  EXPECT_TRUE(run(provider_->resize(id_, "sized", {.rows = 44, .columns = 55})));
  EXPECT_NE(must(follow(std::move(stream))).output.find("44 55"), std::string::npos);
}

TEST_P(ProviderPromises, AJobIsItsUsersAndHasItsLimits) {
  EXPECT_EQ(run_job({.shell_line = "id -un", .user = "root"}).output, "root\n");
  EXPECT_EQ(run_job({.shell_line = "id -un", .user = "nobody"}).output, "nobody\n");
  EXPECT_EQ(run_job({.shell_line = "ulimit -n", .open_files_max = 33}).output, "33\n");
  EXPECT_NE(
      run_job({.shell_line = "head -c 20000 /dev/zero > ~/f", .file_bytes_max = 10'000}).end->code,
      0);
  EXPECT_LE(must(provider_->stat_file(id_, "f", "")).size, 10'000U);
  EXPECT_EQ(refused(provider_->execute(id_, {.shell_line = "true", .user = "nobody-of-the-name"})),
            ErrorCode::kInvalid);
}

TEST_P(ProviderPromises, ATimeoutWarnsUnlessItIsToKill) {
  const std::string line = "trap 'echo warned; exit' TERM; echo on; while :; do sleep 0.05; done";
  const Ran warned = run_job({.shell_line = line, .timeout = std::chrono::seconds(2)});
  EXPECT_EQ(warned.output, "on\nwarned\n");
  const Ran killed =
      run_job({.shell_line = line, .timeout = std::chrono::seconds(2), .kill_at_timeout = true});
  EXPECT_EQ(killed.output, "on\n");
  EXPECT_EQ(killed.end->outcome, Outcome::kTimeout);
}

TEST_P(ProviderPromises, SignalsReachTheJob) {
  auto stream = must(provider_->execute(id_, {.id = "s", .argv = {"/bin/sleep", "60"}}));
  EXPECT_TRUE(run(provider_->signal(id_, "s", SIGTERM)));
  const Ran ran = must(follow(std::move(stream)));
  EXPECT_EQ(ran.end->outcome, Outcome::kSignal);
  EXPECT_EQ(ran.end->code, SIGTERM);
}

TEST_P(ProviderPromises, ABeginningIsAnnouncedAtOnceWhereItIsAskedFor) {
  auto stream = must(provider_->execute(id_, {.id = "s",
                                              .argv = {"/bin/sh", "-c", "read x; echo $$"},
                                              .input_open = true,
                                              .announce_start = true}));
  const auto first = must(stream->next(loop_->now() + std::chrono::seconds(10)));
  ASSERT_TRUE(first && std::holds_alternative<JobStarted>(*first));
  EXPECT_TRUE(run(provider_->close_input(id_, "s")));
  EXPECT_EQ(must(follow(std::move(stream))).output,
            std::to_string(std::get<JobStarted>(*first).pid) + "\n");
  EXPECT_FALSE(sh("true").started);
}

TEST_P(ProviderPromises, ALabelIsGivenBackInTheListOfJobs) {
  run_job({.id = "l", .shell_line = "true", .label = "{\"of\":\"the caller\"}"});
  const auto jobs = must(provider_->list_jobs(id_));
  const auto found = std::ranges::find(jobs, "l", &JobInfo::id);
  ASSERT_NE(found, jobs.end());
  EXPECT_EQ(found->label, "{\"of\":\"the caller\"}");
  EXPECT_EQ(refused(provider_->execute(
                id_, {.shell_line = "true", .label = std::string(kJobLabelBytesMax + 1, 'x')})),
            ErrorCode::kLimit);
}

TEST_P(ProviderPromises, WhatIsWrongWithAJobIsAnErrorAndNoJob) {
  EXPECT_EQ(refused(provider_->execute(id_, {})), ErrorCode::kInvalid);
  EXPECT_EQ(refused(provider_->execute(id_, {.argv = {"/no/such/program"}})), ErrorCode::kInvalid);
  EXPECT_EQ(refused(provider_->execute(id_, {.argv = {std::string(200'000, 'x')}})),
            ErrorCode::kInvalid);
  EXPECT_EQ(refused(provider_->execute("none", {.argv = {"true"}})), ErrorCode::kNotFound);
}

// ---- files

TEST_P(ProviderPromises, FilesComeBackAsWritten) {
  std::string bytes(300'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  write("a/b/c", bytes);
  EXPECT_EQ(content("a/b/c"), bytes);
  EXPECT_EQ(must(provider_->stat_file(id_, "a/b/c", "")).size, bytes.size());
}

TEST_P(ProviderPromises, NamesOfAnyBytesWork) {
  const std::string name = "n\xff\n'\"$(x) é";
  write(name, "x");
  EXPECT_EQ(content(name), "x");
  const auto files = must(provider_->list_files(id_, ".", "", 1));
  EXPECT_TRUE(std::ranges::any_of(files, [&](const auto& f) { return f.path.ends_with(name); }));
  EXPECT_EQ(refused(provider_->stat_file(id_, std::string("a\0b", 3), "")), ErrorCode::kInvalid);
}

TEST_P(ProviderPromises, LinksLeadNowhereElse) {
  sh("ln -s ../../../../../../../../tmp/inside ~/up; echo inside > /tmp/inside; echo mine > ~/t; "
     "ln -s ~/t ~/l");
  EXPECT_EQ(content("l"), "mine\n");
  EXPECT_EQ(content("up"), "inside\n");
  EXPECT_TRUE(run(provider_->remove_file(id_, "l", "")));
  EXPECT_EQ(content("t"), "mine\n");
}

TEST_P(ProviderPromises, MissingAndForbiddenFilesAreTold) {
  EXPECT_EQ(refused(provider_->read_file(id_, "none", "", 0, 0)), ErrorCode::kNotFound);
  const std::string pattern = content("/proc/sys/kernel/core_pattern");
  refused(provider_->write_file(id_, "/proc/sys/kernel/core_pattern", {}, source("x")));
  refused(
      provider_->write_file(id_, "/proc/sys/kernel/core_pattern", {.append = true}, source("x")));
  EXPECT_EQ(content("/proc/sys/kernel/core_pattern"), pattern);
  EXPECT_EQ(refused(provider_->write_file(id_, "/etc/new", {.user = "nobody"}, source("x"))),
            ErrorCode::kDenied);
  write("there", "x");
  EXPECT_EQ(refused(provider_->write_file(id_, "there", {.must_not_exist = true}, source("y"))),
            ErrorCode::kConflict);
  EXPECT_EQ(content("there"), "x");
}

TEST_P(ProviderPromises, TreesAreMovedAndRemoved) {
  must(provider_->make_directory(id_, "d/e", "", ""));
  write("d/e/f", "x");
  must(provider_->rename_file(id_, "d", "g", ""));
  EXPECT_EQ(content("g/e/f"), "x");
  EXPECT_TRUE(run(provider_->remove_file(id_, "g", "")));
  EXPECT_EQ(refused(provider_->stat_file(id_, "g", "")), ErrorCode::kNotFound);
}

TEST_P(ProviderPromises, AFileWrittenInPlaceStaysTheSameFile) {
  sh("echo old > ~/f; chmod 0750 ~/f; ln -s f ~/l");
  const auto before = must(provider_->stat_file(id_, "f", ""));
  must(provider_->write_file(id_, "l", {.in_place = true}, source("new")));
  const auto after = must(provider_->stat_file(id_, "f", ""));
  EXPECT_EQ(after.inode, before.inode);
  EXPECT_EQ(after.mode, 0750U);
  EXPECT_EQ(content("f"), "new");
}

TEST_P(ProviderPromises, RootMakesFilesForOthers) {
  const WriteOptions options{
      .user = "root", .owner = "nobody", .attributes = {{"user.pons.a", "b=c"}}};
  must(provider_->write_file(id_, "/made/by/root", options, source("x")));
  must(provider_->make_directory(id_, "/made/too", "root", "nobody"));
  EXPECT_EQ(sh("stat -c %U /made /made/by /made/by/root /made/too | uniq").output, "nobody\n");
  EXPECT_EQ(must(provider_->stat_file(id_, "/made/by/root", "")).attributes, options.attributes);
  EXPECT_EQ(must(provider_->list_files(id_, "/made/by", "", 1)).at(0).attributes,
            options.attributes);
  EXPECT_EQ(refused(provider_->write_file(id_, "f", {.owner = "root"}, source("x"))),
            ErrorCode::kDenied);
  EXPECT_EQ(
      refused(provider_->write_file(id_, "f", {.attributes = {{"trusted.x", ""}}}, source("x"))),
      ErrorCode::kInvalid);
}

TEST_P(ProviderPromises, ChangesAreSeen) {
  must(provider_->make_directory(id_, "w", "", ""));
  auto changes = must(provider_->watch_files(id_, "w", "", false));
  write("w/new", "x");
  EXPECT_TRUE(must(changes->next(loop_->now() + std::chrono::seconds(10))).path.starts_with("w/"));
}

// ---- transactions

TEST_P(ProviderPromises, RollbackReturnsToAnyCheckpoint) {
  write("f", "1");
  must(provider_->checkpoint(id_, "one"));
  write("f", "2");
  must(provider_->checkpoint(id_, "two"));
  sh("rm ~/f; mkdir ~/d");
  EXPECT_TRUE(run(provider_->rollback(id_, "two")));
  EXPECT_EQ(content("f"), "2");
  EXPECT_TRUE(run(provider_->rollback(id_, "one")));
  EXPECT_EQ(content("f"), "1");
  EXPECT_EQ(refused(provider_->rollback(id_, "none")), ErrorCode::kNotFound);
}

TEST_P(ProviderPromises, CommitKeepsTheFilesAndForgetsTheName) {
  must(provider_->checkpoint(id_, "one"));
  write("f", "2");
  EXPECT_TRUE(run(provider_->commit(id_, "one")));
  EXPECT_EQ(content("f"), "2");
  EXPECT_TRUE(must(provider_->inspect(id_)).checkpoints.empty());
}

TEST_P(ProviderPromises, ManyCheckpointsAndCommitsLoseNothing) {
  for (int i = 0; i < 40; ++i) {
    const std::string name = must(provider_->checkpoint(id_, ""));
    write("f" + std::to_string(i), std::to_string(i));
    EXPECT_TRUE(run(provider_->commit(id_, name)));
  }
  for (int i = 0; i < 40; ++i) EXPECT_EQ(content("f" + std::to_string(i)), std::to_string(i));
}

TEST_P(ProviderPromises, ManyCheckpointsAroundMovedDirectoriesLoseNothing) {
  EXPECT_EQ(sh("mkdir -p ~/a/deep; echo x > ~/a/deep/f; echo y > ~/a/g").end->code, 0);
  std::string path = "a", other = "b";
  for (int i = 0; i < 60; ++i) {
    const std::string name = must(provider_->checkpoint(id_, ""));
    // Mostly something else happens.
    if (i % 7 == 0) {
      EXPECT_EQ(sh("mv ~/" + path + " ~/" + other).end->code, 0);
      std::swap(path, other);
    }
    write(path + "/" + std::to_string(i), std::to_string(i));
    EXPECT_TRUE(run(provider_->commit(id_, name)));
  }
  EXPECT_EQ(content(path + "/deep/f"), "x\n");
  EXPECT_EQ(content(path + "/g"), "y\n");
  for (int i = 0; i < 60; ++i)
    EXPECT_EQ(content(path + "/" + std::to_string(i)), std::to_string(i));
  EXPECT_EQ(refused(provider_->stat_file(id_, other, "")), ErrorCode::kNotFound);
}

TEST_P(ProviderPromises, AWriterMakesACheckpointAConflict) {
  must(provider_->execute(
      id_, {.id = "w", .shell_line = "exec 5>~/open; echo ok; read x", .input_open = true}));
  wait_for_file("open");
  EXPECT_EQ(refused(provider_->checkpoint(id_, "one")), ErrorCode::kConflict);
  EXPECT_TRUE(run(provider_->close_input(id_, "w")));
}

TEST_P(ProviderPromises, ATransactionUndoesAFailureAndKeepsASuccess) {
  JobSpec job{.shell_line = "echo x > ~/t; false", .transaction = Transaction::kRollbackOnFailure};
  EXPECT_TRUE(run_job(job).end->rolled_back);
  EXPECT_EQ(refused(provider_->stat_file(id_, "t", "")), ErrorCode::kNotFound);
  job.shell_line = "echo x > ~/t";
  EXPECT_FALSE(run_job(job).end->rolled_back);
  EXPECT_EQ(content("t"), "x\n");
}

TEST_P(ProviderPromises, AForkOfACheckpointHasTheFilesOfThen) {
  write("f", "then");
  must(provider_->checkpoint(id_, "one"));
  write("f", "now");
  const std::string fork = must(provider_->fork(id_, {.checkpoint = "one"})).id;
  made_.push_back(fork);
  EXPECT_TRUE(run(provider_->commit(id_, "one")));
  EXPECT_EQ(content("f"), "now");
  EXPECT_EQ(must(read_whole(fork, "f")), "then");
  EXPECT_EQ(refused(provider_->fork(id_, {.checkpoint = "none"})), ErrorCode::kNotFound);
}

TEST_P(ProviderPromises, AForkHasTheFilesAndIsApart) {
  write("f", "both");
  const std::string fork = must(provider_->fork(id_, {})).id;
  made_.push_back(fork);
  write("f", "changed");
  EXPECT_EQ(must(read_whole(fork, "f")), "both");
  EXPECT_TRUE(run(provider_->destroy(id_)));
  EXPECT_EQ(must(read_whole(fork, "f")), "both");
}

TEST_P(ProviderPromises, AForkBesideAProcessLeavesItAtWork) {
  must(provider_->execute(
      id_, {.id = "w",
            .shell_line = "exec 5>>~/open; echo 1 >&5; echo > ~/ready; read x; echo $x >&5",
            .input_open = true}));
  wait_for_file("ready");
  const std::string fork = must(provider_->fork(id_, {})).id;
  made_.push_back(fork);
  EXPECT_EQ(must(read_whole(fork, "open")), "1\n");
  EXPECT_TRUE(run(provider_->write_input(id_, "w", "2\n")));
  EXPECT_EQ(must(follow(must(provider_->attach(id_, "w", {})))).end->code, 0);
  EXPECT_EQ(content("open"), "1\n2\n");
  EXPECT_EQ(must(read_whole(fork, "open")), "1\n");
  EXPECT_TRUE(must(provider_->list_jobs(fork)).empty());
}

TEST_P(ProviderPromises, TheSameForkFindsTheSameSandbox) {
  write("f", "x");
  const CreateRequest request{.id = "fork-" + id_.substr(id_.size() - 8)};
  made_.push_back(must(provider_->fork(id_, request)).id);
  must(provider_->write_file(made_.back(), "f", {}, source("changed")));
  EXPECT_EQ(must(provider_->fork(id_, request)).id, request.id);
  EXPECT_EQ(must(read_whole(request.id, "f")), "changed");
}

TEST_P(ProviderPromises, ForksOfWhatIsKeptHaveTheFilesOfOneMoment) {
  write("f", "then");
  for (int i = 0; i < 2; ++i) {
    made_.push_back(must(provider_->fork(id_, {.keep_checkpoint = "kept"})).id);
    EXPECT_EQ(must(read_whole(made_.back(), "f")), "then") << i;
    write("f", "now");
  }
  EXPECT_EQ(must(provider_->inspect(id_)).checkpoints, std::vector<std::string>{"kept"});
  EXPECT_TRUE(run(provider_->commit(id_, "kept")));
  EXPECT_EQ(content("f"), "now");
}

// ---- lives and limits

TEST_P(ProviderPromises, ALifetimeThatIsSetEndsItOrPausesIt) {
  made_.push_back(must(provider_->create({.template_name = GetParam().template_name})).id);
  const std::string other = made_.back();
  must(provider_->set_lifetime(id_, Milliseconds(50), true));
  must(provider_->set_lifetime(other, Milliseconds(50), false));
  const auto state_of = [&](const std::string& id) {
    const auto info = run(provider_->inspect(id));
    return info ? info->state : State::kEnded;
  };
  for (int i = 0; i < 500 && (state_of(id_) != State::kPaused || state_of(other) != State::kEnded);
       ++i)
    usleep(20'000);
  EXPECT_EQ(state_of(id_), State::kPaused);
  EXPECT_EQ(state_of(other), State::kEnded);
  EXPECT_EQ(must(provider_->set_lifetime(id_, Milliseconds(0), true)).ends_unix_ms, std::nullopt);
  EXPECT_EQ(must(provider_->resume(id_)).state, State::kRunning);
  EXPECT_EQ(sh("echo on").output, "on\n");
}

TEST_P(ProviderPromises, LimitsChangeWhileItRuns) {
  Limits limits = must(provider_->inspect(id_)).limits;
  limits.pids = 24;
  EXPECT_EQ(must(provider_->set_limits(id_, limits)).limits.pids, 24U);
  const Ran many = sh("for i in $(seq 60); do sleep 5 & done; echo all; kill $(jobs -p)");
  EXPECT_EQ(many.output.find("all"), std::string::npos) << "there was no process for each";
  limits.pids = 512;
  must(provider_->set_limits(id_, limits));
  EXPECT_EQ(sh("for i in $(seq 60); do sleep 0.01 & done; wait; echo all").output, "all\n");
}

TEST_P(ProviderPromises, TheSameCreateFindsTheSameSandbox) {
  const CreateRequest request{.id = id_, .template_name = GetParam().template_name};
  EXPECT_EQ(must(provider_->create(request)).id, id_);
  const auto all = must(provider_->list());
  EXPECT_EQ(std::ranges::count(all, id_, &SandboxInfo::id), 1);
}

TEST_P(ProviderPromises, WhatMustBeNewIsRefusedWhenItIsThere) {
  CreateRequest request{.id = id_, .template_name = GetParam().template_name};
  request.must_be_new = true;
  const auto again = run(provider_->create(request));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kConflict);
  EXPECT_EQ(must(provider_->inspect(id_)).state, State::kRunning);
}

TEST_P(ProviderPromises, DestroyedIsGoneAndDestroyingAgainIsRight) {
  EXPECT_TRUE(run(provider_->destroy(id_)));
  EXPECT_EQ(refused(provider_->inspect(id_)), ErrorCode::kNotFound);
  EXPECT_TRUE(run(provider_->destroy(id_)));
}

TEST_P(ProviderPromises, PausedTakesNoCallsAndGoesOnWhenResumed) {
  EXPECT_EQ(must(provider_->pause(id_)).state, State::kPaused);
  EXPECT_EQ(refused(execute(id_, {.shell_line = "true"})), ErrorCode::kConflict);
  EXPECT_EQ(must(provider_->resume(id_)).state, State::kRunning);
  EXPECT_EQ(sh("echo on").output, "on\n");
}

TEST_P(ProviderPromises, LackOfMemoryIsNamedAndTheSandboxLives) {
  const std::string small = must(provider_->create({.template_name = GetParam().template_name,
                                                    .limits = {.memory_bytes = 128ULL << 20}}))
                                .id;
  made_.push_back(small);
  const Ran ran =
      must(execute(small, {.shell_line = "x=$(head -c 400000000 /dev/zero | tr '\\0' x)"}));
  EXPECT_EQ(ran.end->outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(must(execute(small, {.shell_line = "echo on"})).output, "on\n");
}

TEST_P(ProviderPromises, AJobThatWasKilledIsNotTakenForOneThatLackedMemory) {
  const std::string small = must(provider_->create({.template_name = GetParam().template_name,
                                                    .limits = {.memory_bytes = 128ULL << 20}}))
                                .id;
  made_.push_back(small);
  const Ran lacking =
      must(execute(small, {.shell_line = "x=$(head -c 400000000 /dev/zero | tr '\\0' x)"}));
  EXPECT_EQ(lacking.end->outcome, Outcome::kOutOfMemory);
  const Ran killed = must(execute(small, {.argv = {"/bin/sh", "-c", "kill -KILL $$"}}));
  EXPECT_EQ(killed.end->outcome, Outcome::kSignal);
  EXPECT_EQ(killed.end->code, SIGKILL);
}

TEST_P(ProviderPromises, AFullDiskIsAnErrorOfTheWriterAndNotTheEnd) {
  const Ran ran = sh("head -c 2000000000 /dev/zero > ~/big");
  EXPECT_NE(ran.end->code, 0);
  EXPECT_TRUE(ran.end->note.starts_with("disk full: ")) << ran.end->note;
  EXPECT_EQ(sh("rm ~/big; echo on").output, "on\n");
}

TEST_P(ProviderPromises, MetricsKnowTheLimits) {
  const Metrics usage = must(provider_->metrics(id_));
  EXPECT_EQ(usage.memory_bytes_max, must(provider_->inspect(id_)).limits.memory_bytes);
  EXPECT_GT(usage.disk_bytes_max, 0U);
}

TEST_P(ProviderPromises, LimitsWithoutAnEndAreRefused) {
  EXPECT_EQ(refused(provider_->create({.limits = {.disk_upper = true}})), ErrorCode::kInvalid);
  EXPECT_EQ(refused(provider_->create({.limits = {.memory_bytes = 1}})), ErrorCode::kInvalid);
  EXPECT_EQ(refused(provider_->create({.id = "No Such Id!"})), ErrorCode::kInvalid);
  EXPECT_EQ(refused(provider_->create({.template_name = "none"})), ErrorCode::kNotFound);
}

TEST_P(ProviderPromises, ASnapshotIsATemplateThatIsHeldByItsSandboxes) {
  write("f", "kept");
  const std::string name = "conformance-" + id_.substr(id_.size() - 8);
  must(provider_->snapshot(id_, name));
  const std::string child = must(provider_->create({.template_name = name})).id;
  EXPECT_EQ(must(read_whole(child, "f")), "kept");
  EXPECT_EQ(refused(provider_->remove_template(name)), ErrorCode::kConflict);
  EXPECT_TRUE(run(provider_->destroy(child)));
  must(provider_->remove_template(name));
}

TEST_P(ProviderPromises, ASnapshotIsReplacedAndSandboxesKeepTheirs) {
  const std::string name = "replaced-" + id_.substr(id_.size() - 8);
  write("f", "old");
  must(provider_->snapshot(id_, name));
  made_.push_back(must(provider_->create({.template_name = name})).id);
  write("f", "new");
  must(provider_->snapshot(id_, name));
  made_.push_back(must(provider_->create({.template_name = name})).id);
  EXPECT_EQ(must(read_whole(made_[0], "f")), "old");
  EXPECT_EQ(must(read_whole(made_[1], "f")), "new");
  EXPECT_EQ(refused(provider_->snapshot(id_, GetParam().template_name)), ErrorCode::kConflict);
  for (const std::string& id : made_) EXPECT_TRUE(run(provider_->destroy(id)));
  must(provider_->remove_template(name));
}

TEST_P(ProviderPromises, DialReachesAPortInside) {
  auto listener = must(provider_->execute(
      id_, {.id = "listen",
            .shell_line = "perl -MIO::Socket::INET -e '$s=IO::Socket::INET->new(Listen=>1,"
                          "LocalAddr=>\"127.0.0.1\",LocalPort=>8080,ReuseAddr=>1);$|=1;print "
                          "\"up\\n\";$c=$s->accept;print $c \"hello\";'"}));
  must(listener->next(loop_->now() + std::chrono::seconds(10)));
  const linux::UniqueFd connection = must(provider_->dial(id_, 8080));
  CHECK(linux::set_nonblocking(connection.get()));
  auto watch = linux::Watch::create(*loop_, connection.get());
  struct Reader {
    static Task<std::string> five_bytes(linux::Watch& watch, int fd) {
      std::string bytes;
      char buffer[16];
      while (bytes.size() < 5) {
        const ssize_t size = ::read(fd, buffer, sizeof buffer);
        if (size == 0) break;
        if (size > 0) {
          bytes.append(buffer, static_cast<std::size_t>(size));
        } else if (co_await watch.readable(watch.loop().now() + std::chrono::seconds(10)) ==
                   linux::Wait::kTimeout) {
          break;
        }
      }
      co_return bytes;
    }
  };
  EXPECT_EQ(run(Reader::five_bytes(*watch, connection.get())), "hello");
}

}  // namespace pons::sandbox
