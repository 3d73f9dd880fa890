#include "pons/brain/warden_hands.h"

#include <csignal>
#include <deque>
#include <functional>

#include <gtest/gtest.h>

#include "pons/linux/run_task.h"
#include "pons/linux/simulated_time.h"
#include "pons/sandbox/refusing_provider.h"

namespace pons::brain {
namespace {

using namespace sandbox;

Error away() {
  return make_error(ErrorCode::kUnavailable, "ask warden", "went away");
}

// One job that prints for so long and then ends; the way to it breaks when the test says so.
class Warden final : public RefusingProvider {
 public:
  explicit Warden(linux::Loop& loop) : loop_(loop), begun_(loop.now()) {}

  Duration lasts = std::chrono::seconds(1);
  std::string output = "hello";
  std::vector<std::pair<Duration, Duration>> outages;  // since the start: from, until
  JobInfo end{.outcome = Outcome::kExit, .code = 0, .duration = Milliseconds(1'000)};
  bool has_forgotten = false;  // the sandbox was made again
  int executes = 0, attaches = 0, creates = 0;
  std::vector<JobOffsets> attached_at;
  std::optional<JobSpec> spec;
  std::optional<CreateRequest> created;
  std::vector<int> signals;
  std::deque<Error> unsignalled;  // what comes of the next ones instead
  std::vector<std::string> destroyed;

  bool is_away() const {
    for (const auto& [from, until] : outages)
      if (loop_.now() - begun_ >= from && loop_.now() - begun_ < until) return true;
    return false;
  }
  TimePoint next_outage() const {
    TimePoint next = kNever;
    for (const auto& [from, until] : outages)
      if (begun_ + from > loop_.now()) next = std::min(next, begun_ + from);
    return next;
  }

  Task<Result<SandboxInfo>> create(CreateRequest request) override {
    ++creates;
    if (is_away()) co_return away();
    created = request;
    co_return SandboxInfo{.id = request.id, .template_name = request.template_name};
  }
  Task<Result<std::unique_ptr<JobStream>>> execute(std::string, JobSpec job) override {
    ++executes;
    if (is_away()) co_return away();
    if (!spec) started_ = loop_.now();
    spec = std::move(job);
    co_return std::unique_ptr<JobStream>(std::make_unique<Stream>(*this, JobOffsets{}));
  }
  Task<Result<std::unique_ptr<JobStream>>> attach(std::string, std::string,
                                                  JobOffsets from) override {
    ++attaches;
    attached_at.push_back(from);
    if (is_away()) co_return away();
    if (has_forgotten) co_return make_error(ErrorCode::kNotFound, "find job", "there is none");
    co_return std::unique_ptr<JobStream>(std::make_unique<Stream>(*this, from));
  }
  Task<Result<void>> signal(std::string, std::string, int number) override {
    signals.push_back(number);
    if (unsignalled.empty()) co_return {};
    const Error error = unsignalled.front();
    unsignalled.pop_front();
    co_return error;
  }
  Task<Result<void>> destroy(std::string id) override {
    destroyed.push_back(id);
    co_return {};
  }

 private:
  class Stream final : public JobStream {
   public:
    Stream(Warden& warden, JobOffsets at) : warden_(warden), at_(at) {}
    const std::string& job_id() const override { return warden_.spec->id; }
    Task<Result<std::optional<JobEvent>>> next(TimePoint deadline) override {
      if (at_.output < warden_.output.size()) {
        Output piece{.offset = at_.output, .bytes = warden_.output.substr(at_.output)};
        at_.output = warden_.output.size();
        co_return std::optional<JobEvent>(std::move(piece));
      }
      const TimePoint ends = warden_.started_ + warden_.lasts;
      const TimePoint breaks = warden_.next_outage();
      co_await warden_.loop_.sleep_until(std::min({ends, breaks, deadline}));
      if (warden_.loop_.now() >= breaks) co_return away();
      if (warden_.loop_.now() >= ends) co_return std::optional<JobEvent>(warden_.end);
      co_return make_error(ErrorCode::kTimeout, "follow job", "nothing");
    }

   private:
    Warden& warden_;
    JobOffsets at_;
  };

  linux::Loop& loop_;
  TimePoint begun_;
  TimePoint started_;
};

class WardenHandsTest : public testing::Test {
 protected:
  WardenHandsTest()
      : loop_(std::move(*linux::Loop::create())),
        time_(*loop_),
        warden_(*loop_),
        hands_(*loop_, warden_, {}) {}

  Result<session::ExecuteReport> execute(session::ExecuteOrder order = {
                                             .sandbox = "s", .call = "c:1", .command = "ls"}) {
    return linux::run_to_end(*loop_, hands_.execute(std::move(order)));
  }

  std::unique_ptr<linux::Loop> loop_;
  linux::SimulatedTime time_;
  Warden warden_;
  WardenHands hands_;
};

using End = session::ExecuteReport::End;
constexpr auto seconds = [](int n) { return std::chrono::seconds(n); };

TEST_F(WardenHandsTest, ACommandIsRunAsItWasOrdered) {
  warden_.end = {.outcome = Outcome::kExit,
                 .code = 3,
                 .duration = Milliseconds(42),
                 .rolled_back = true,
                 .note = "n"};
  const auto report = execute({.sandbox = "s",
                               .call = "c:1",
                               .command = "ls",
                               .input = "in",
                               .timeout_seconds = 7,
                               .undo = session::ExecuteOrder::Undo::kOnFailure});
  ASSERT_TRUE(report) << report.error().describe();
  EXPECT_EQ(report->end, End::kExit);
  EXPECT_EQ(report->code, 3);
  EXPECT_EQ(report->output, "hello");
  EXPECT_EQ(report->took_ms, 42);
  EXPECT_TRUE(report->rolled_back);
  EXPECT_EQ(report->note, "n");
  EXPECT_EQ(warden_.spec->id, "c:1");
  EXPECT_EQ(warden_.spec->shell_line, "ls");
  EXPECT_EQ(warden_.spec->input, "in");
  EXPECT_EQ(warden_.spec->timeout, seconds(7));
  EXPECT_EQ(warden_.spec->transaction, Transaction::kRollbackOnFailure);
}

TEST_F(WardenHandsTest, EachEndIsReported) {
  const std::vector<std::pair<Outcome, End>> cases = {
      {Outcome::kSignal, End::kSignal},           {Outcome::kTimeout, End::kTimeout},
      {Outcome::kOutOfMemory, End::kOutOfMemory}, {Outcome::kOutputLimit, End::kOutputLimit},
      {Outcome::kInterrupted, End::kInterrupted}, {Outcome::kRunning, End::kInterrupted}};
  for (const auto& [outcome, end] : cases) {
    warden_.end.outcome = outcome;
    EXPECT_EQ(execute()->end, end);
  }
}

TEST_F(WardenHandsTest, ALongCommandOutlivesARestartOfTheWardenAtAnyTime) {
  warden_.lasts = seconds(280);
  warden_.outages = {
      {seconds(5), seconds(15)}, {seconds(100), seconds(150)}, {seconds(200), seconds(255)}};
  const auto report = execute();
  ASSERT_TRUE(report) << report.error().describe();
  EXPECT_EQ(report->output, "hello") << "nothing of it twice";
  EXPECT_EQ(warden_.executes, 1) << "it is joined, not begun again";
  for (const JobOffsets& at : warden_.attached_at) EXPECT_EQ(at.output, 5U);
}

TEST_F(WardenHandsTest, ASilentCommandIsJoinedByItsId) {
  warden_.output = "";
  warden_.lasts = seconds(100);
  warden_.outages = {{seconds(70), seconds(80)}};
  ASSERT_TRUE(execute());
  EXPECT_GT(warden_.executes, 1);
  EXPECT_EQ(warden_.spec->id, "c:1");
}

TEST_F(WardenHandsTest, InAMachineThatWasMadeAgainASilentCommandIsNotRunASecondTime) {
  const session::ExecuteOrder order{
      .sandbox = "s", .call = "c:1", .command = "ls", .may_be_remade = true};
  warden_.output = "";
  warden_.lasts = seconds(100);
  warden_.outages = {{seconds(70), seconds(80)}};
  ASSERT_TRUE(execute(order)) << "where it is still known, it is joined";
  const int before = warden_.executes;
  warden_.outages = {{seconds(170), seconds(180)}};
  warden_.lasts = seconds(1'000);
  warden_.has_forgotten = true;
  const auto report = execute(order);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable) << "it may have run";
  EXPECT_EQ(warden_.executes, before + 1);
}

TEST_F(WardenHandsTest, WhatWasBegunBeforeIsJoinedAndNeverBegun) {
  ASSERT_TRUE(execute());
  warden_.outages = {{seconds(0), seconds(20)}};
  const auto report = execute({.sandbox = "s", .call = "c:1", .command = "ls", .was_begun = true});
  ASSERT_TRUE(report) << report.error().describe();
  EXPECT_EQ(report->output, "hello");
  EXPECT_EQ(warden_.executes, 1);
  EXPECT_EQ(warden_.attached_at.back().output, 0U) << "from its beginning";
}

TEST_F(WardenHandsTest, AWardenThatDoesNotComeBackIsGivenUp) {
  warden_.lasts = seconds(280);
  warden_.outages = {{seconds(100), seconds(10'000)}};
  const TimePoint begun = loop_->now();
  const auto report = execute();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
  EXPECT_GE(loop_->now() - begun, seconds(160));
  EXPECT_LT(loop_->now() - begun, seconds(170));
}

TEST_F(WardenHandsTest, ACommandThatNeverReturnsIsNotWaitedForForEver) {
  warden_.lasts = seconds(1'000'000);
  const TimePoint begun = loop_->now();
  const auto report =
      execute({.sandbox = "s", .call = "c:1", .command = "ls", .timeout_seconds = 10});
  EXPECT_EQ(report.error().code, ErrorCode::kTimeout);
  EXPECT_LE(loop_->now() - begun, seconds(60));
}

TEST_F(WardenHandsTest, OfAHugeOutputTheEndIsKept) {
  warden_.output = std::string(25 << 20, 'a') + "the end";
  const auto report = execute();
  ASSERT_TRUE(report);
  EXPECT_LE(report->output.size(), 10U << 20);
  EXPECT_TRUE(report->output.ends_with("the end"));
  EXPECT_EQ(report->output.size() + report->lost_bytes, warden_.output.size());
}

TEST_F(WardenHandsTest, ASandboxIsMadeWithItsLabelsAndWaitedFor) {
  warden_.outages = {{seconds(0), seconds(20)}};
  const auto made = linux::run_to_end(*loop_, hands_.provision({.sandbox = "sx-1",
                                                                .sandbox_template = "t",
                                                                .environment = "e",
                                                                .session = "ses",
                                                                .project = "p"}));
  ASSERT_TRUE(made) << made.error().describe();
  EXPECT_GT(warden_.creates, 1);
  EXPECT_EQ(warden_.created->id, "sx-1");
  EXPECT_EQ(warden_.created->template_name, "t");
  EXPECT_EQ(warden_.created->network.environment, "e");
  EXPECT_EQ(warden_.created->labels.at("pons.session"), "ses");
  EXPECT_EQ(warden_.created->labels.at("pons.project"), "p");
  warden_.outages = {{seconds(0), seconds(100'000)}};
  EXPECT_FALSE(linux::run_to_end(*loop_, hands_.provision({.sandbox = "sx-2"})));
}

TEST_F(WardenHandsTest, SnapshotsOfOtherProjectsAreNotThere) {
  const auto provision = [&](std::string name) {
    return linux::run_to_end(
        *loop_,
        hands_.provision({.sandbox = "sx-1", .sandbox_template = std::move(name), .project = "p"}));
  };
  for (const char* name :
       {"own.q.work", "own.p", "own.", "own.pq.work", "host+own.q.work", "own.p.work+own.q.work"}) {
    const auto refused = provision(name);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::kNotFound) << name;
  }
  EXPECT_EQ(warden_.creates, 0);
  EXPECT_TRUE(provision("own.p.work"));
  EXPECT_TRUE(provision("host+own.p.work"));
}

TEST_F(WardenHandsTest, StopAndDestroyReachTheWarden) {
  ASSERT_TRUE(linux::run_to_end(*loop_, hands_.stop("s", "c:1")));
  ASSERT_TRUE(linux::run_to_end(*loop_, hands_.destroy("s")));
  EXPECT_EQ(warden_.signals, std::vector<int>{SIGKILL});
  EXPECT_EQ(warden_.destroyed, std::vector<std::string>{"s"});
}

// Whoever wants it stopped asks until it is well.
TEST_F(WardenHandsTest, ACommandThatIsNotThereIsStopped) {
  const auto error = [](ErrorCode code) { return make_error(code, "signal", "no"); };
  const auto stop = [&] { return linux::run_to_end(*loop_, hands_.stop("s", "c:1")); };
  warden_.unsignalled = {error(ErrorCode::kInvalid)};
  EXPECT_TRUE(stop()) << "it has ended";
  warden_.unsignalled = {error(ErrorCode::kNotFound), error(ErrorCode::kNotFound)};
  EXPECT_TRUE(stop()) << "it was never begun, or its sandbox is gone";
  warden_.signals.clear();
  warden_.unsignalled = {error(ErrorCode::kNotFound)};
  EXPECT_TRUE(stop());
  EXPECT_EQ(warden_.signals.size(), 2U) << "it was on its way there";
  warden_.unsignalled = {away()};
  EXPECT_FALSE(stop()) << "nobody knows";
}

}  // namespace
}  // namespace pons::brain
