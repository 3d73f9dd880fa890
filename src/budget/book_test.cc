#include "pons/budget/book.h"

#include <gmock/gmock.h>

#include <map>
#include <random>

#include "budget_fixture.h"

namespace pons::budget {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::int64_t kDayMs = 24 * kHourMs;

class BookTest : public BudgetTest {
 protected:
  void SetUp() override { open(); }
  static Limit per_day(std::int64_t amount) {
    return {.what = What::kMoney, .amount = amount, .window = Window::kDay};
  }
  static Limit seconds_per_day(std::int64_t amount) {
    return {.what = What::kSandboxSeconds, .amount = amount, .window = Window::kDay};
  }
  std::string root() { return run(book_->keys().ensure_root("default"))->id; }
  static constexpr int kCalls = 500;
  Task<int> make_calls(std::string key) {
    for (int made = 0; made < kCalls;) {
      if (auto call = begin(key)) {
        call->settle({.output = 1}, Outcome::kDone);
        ++made;
      } else {
        co_await loop_->sleep_for(std::chrono::milliseconds(1));
      }
    }
    co_return 0;
  }
  Result<std::vector<UsageRow>> usage(std::string node) {
    return run(book_->usage({.project_id = "default", .node_id = std::move(node)}));
  }
};

TEST_F(BookTest, ACallIsReservedSettledAndInTheUsageOfAllAbove) {
  const std::string key = add_key({per_day(1000)});
  auto call = begin(key);
  ASSERT_TRUE(call) << call.error().describe();
  EXPECT_EQ(book_->reserved(key)[What::kMoney], 100);
  EXPECT_EQ(book_->reserved(root())[What::kTokens], 100);
  call->sent();
  call->settle({.input = 1,
                .cache_read = 2,
                .cache_write = 3,
                .cache_write_hour = 4,
                .output = 50,
                .reasoning = 40},
               Outcome::kDone);
  EXPECT_EQ(book_->reserved(key), Amounts{});
  EXPECT_EQ(money(key), 60);
  for (const std::string& node : {key, root()}) {
    const auto rows = usage(node);
    ASSERT_THAT(*rows, SizeIs(1));
    EXPECT_EQ(rows->front(), (UsageRow{.node_id = node,
                                       .model = "m",
                                       .day = clock_.now_ms / kDayMs,
                                       .usage = {1, 2, 3, 4, 50, 40},
                                       .requests = 1,
                                       .cost_nano = 60}));
  }
  EXPECT_EQ(number("SELECT count(*) FROM model_calls WHERE outcome = 'done'"), 1);
}

TEST_F(BookTest, IdsOfCallsAreInTheOrderOfTime) {
  const std::string key = add_key({per_day(1000)});
  std::string last;
  for (const std::int64_t later : {0, 1, 31, 32, 1'000, 86'400'000}) {
    clock_.now_ms += later;
    const auto call = begin(key);
    ASSERT_TRUE(call);
    if (later > 0) EXPECT_LT(last, call->id());
    last = call->id();
  }
}

TEST_F(BookTest, OfAThousandParallelCallsExactlyThoseThatFitGoThrough) {
  const std::string key = add_key({per_day(1000)});
  std::vector<Call> calls;
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    Refused why;
    auto call = book_->begin_call(
        {.node_id = key, .model = "m", .provider = "p", .estimate = {.input = 10, .output = 90}},
        &why);
    if (call) {
      calls.push_back(std::move(*call));
      continue;
    }
    ++refused;
    ASSERT_EQ(call.error().code, ErrorCode::kLimit);
    ASSERT_EQ(why.node, key);
    ASSERT_EQ(why.resets_at_ms, clock_.now_ms - clock_.now_ms % kDayMs + kDayMs);
  }
  EXPECT_EQ(calls.size(), 10U);
  EXPECT_EQ(refused, 990);
  for (Call& call : calls) call.settle({.input = 10, .output = 90}, Outcome::kDone);
  EXPECT_EQ(money(key), 1000);
  EXPECT_FALSE(begin(key));
}

TEST_F(BookTest, WhatMayNotBeCalledIsRefusedByItsKind) {
  const std::string key = add_key({});
  const auto code = [&](std::string node, std::string model) {
    return book_
        ->begin_call({.node_id = std::move(node),
                      .model = std::move(model),
                      .provider = "p",
                      .estimate = {}})
        .error()
        .code;
  };
  EXPECT_EQ(code("mk_none", "m"), ErrorCode::kDenied);
  EXPECT_EQ(code(key, "unknown-model"), ErrorCode::kNotFound);
  EXPECT_EQ(code(key, "m\n"), ErrorCode::kInvalid);
  EXPECT_EQ(code(key, std::string(200, 'm')), ErrorCode::kInvalid);
  ASSERT_TRUE(run(book_->keys().update(key, {.models = {{"other-*"}}})));
  EXPECT_EQ(code(key, "m"), ErrorCode::kDenied);
  EXPECT_TRUE(
      book_->begin_call({.node_id = key, .model = "m", .asked = "other-name", .provider = "p"}));
  ASSERT_TRUE(run(book_->keys().revoke(key)));
  EXPECT_EQ(code(key, "m"), ErrorCode::kDenied);
}

TEST_F(BookTest, ADroppedCallIsFreeOnlyIfItWasNeverSent) {
  const std::string key = add_key({});
  {
    auto unsent = begin(key);
  }
  EXPECT_EQ(book_->reserved(key), Amounts{});
  EXPECT_EQ(money(key), 0);
  {
    auto sent = begin(key);
    sent->sent();
    sent->progress({.output = 7});
    auto moved = std::move(*sent);
  }
  EXPECT_EQ(book_->reserved(key), Amounts{});
  EXPECT_EQ(money(key), 10 + 7);
  ASSERT_TRUE(run(book_->flush()));
  EXPECT_EQ(number("SELECT count(*) FROM model_calls"), 1);
  EXPECT_EQ(number("SELECT count(*) FROM model_calls WHERE outcome = 'cancelled'"), 1);
  {
    const auto at_once = book_->begin_call({.node_id = key,
                                            .model = "m",
                                            .provider = "p",
                                            .is_sent = true,
                                            .estimate = {.input = 10, .output = 90}});
    ASSERT_TRUE(at_once);
  }
  EXPECT_EQ(money(key), 10 + 7 + 10);
}

TEST_F(BookTest, ACallOfWhichNothingIsHeardIsSettledOnceAtItsPrompt) {
  const std::string key = add_key({});
  auto silent = begin(key);
  auto streaming = begin(key);
  clock_.now_ms += kHourMs - 1000;
  streaming->progress({.output = 5});
  clock_.now_ms += 1000;
  book_->sweep();
  EXPECT_EQ(money(key), 10);
  EXPECT_EQ(book_->reserved(key)[What::kMoney], 100);
  silent->settle({.output = 1000}, Outcome::kDone);
  EXPECT_EQ(money(key), 10) << "its time was over";
  clock_.now_ms += kHourMs;
  book_->sweep();
  EXPECT_EQ(money(key), 10 + 15);
  ASSERT_TRUE(run(book_->flush()));
  EXPECT_EQ(number("SELECT SUM(cost_nano) FROM model_calls WHERE outcome = 'expired'"), 25);
}

TEST_F(BookTest, LimitsAreAsUsedUpAfterARestartAsBefore) {
  const std::string key =
      add_key({{.what = What::kRequests, .amount = 3, .window = Window::kHour},
               {.what = What::kTokens, .amount = 301, .window = Window::kMonth}});
  for (int i = 0; i < 2; ++i) begin(key)->settle({.input = 10, .output = 90}, Outcome::kDone);
  open();
  EXPECT_EQ(money(key), 200);
  begin(key)->settle({.input = 10, .output = 90}, Outcome::kDone);
  EXPECT_EQ(begin(key, 0).error().code, ErrorCode::kLimit);
  open();
  EXPECT_EQ(begin(key, 0).error().code, ErrorCode::kLimit);
  clock_.now_ms += kHourMs;
  EXPECT_EQ(begin(key).error().code, ErrorCode::kLimit) << "the month is not over";
}

TEST_F(BookTest, TheSpendingOfRevokedKeysStaysWithThoseAbove) {
  const std::string team = add_key({per_day(150)}, "", KeyKind::kTeam);
  const std::string session = add_key({}, team, KeyKind::kSession);
  begin(session)->settle({.output = 100}, Outcome::kDone);
  ASSERT_TRUE(run(book_->keys().revoke(session)));
  open();
  EXPECT_EQ(money(team), 100);
  EXPECT_EQ(book_->used(team, Window::kMinute)[What::kMoney], 100);
  EXPECT_FALSE(begin(team));
  EXPECT_THAT(*usage(session), SizeIs(1)) << "history stays";
}

TEST_F(BookTest, SandboxSecondsAreChargedOnceForEachSandbox) {
  options_.sandbox_second_nano = 3;
  open();
  const std::string key =
      add_key({{.what = What::kSandboxSeconds, .amount = 100, .window = Window::kDay}});
  const auto charge = [&](const char* sandbox, std::int64_t seconds) {
    return run(book_->charge_sandbox(key, sandbox, seconds));
  };
  EXPECT_TRUE(charge("sbx_a", 60).value());
  EXPECT_FALSE(charge("sbx_a", 60).value()) << "still in the journal";
  ASSERT_TRUE(run(book_->flush()));
  EXPECT_FALSE(charge("sbx_a", 61).value()) << "in the store";
  EXPECT_TRUE(charge("sbx_b", 60).value()) << "beyond the limit, and it has happened";
  open();
  EXPECT_FALSE(charge("sbx_b", 60).value()) << "after a restart";
  EXPECT_EQ(begin(key).error().code, ErrorCode::kLimit) << "who has used it up begins nothing more";
  EXPECT_EQ(charge("sbx_c", 0).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(charge("sbx_c", -5).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(charge("", 5).error().code, ErrorCode::kInvalid);
  const auto rows = usage(key);
  ASSERT_THAT(*rows, SizeIs(1));
  EXPECT_EQ(rows->front().sandbox_seconds, 120);
  EXPECT_EQ(rows->front().requests, 0);
  EXPECT_EQ(rows->front().cost_nano, 360);
  open();
  EXPECT_EQ(book_->used(key, Window::kDay)[What::kSandboxSeconds], 120);
  EXPECT_FALSE(begin(key));
  clock_.now_ms += kDayMs;
  EXPECT_TRUE(begin(key)) << "the next day";
}

TEST_F(BookTest, ASandboxBeginsOnlyWhileALimitAboveItHasRoomForASecond) {
  open();
  const std::string agent = add_key({}, add_key({seconds_per_day(3)}), KeyKind::kAgent);
  const std::string other = add_key({});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(book_->admit_sandbox(agent)) << i;
  Refused refused;
  const auto fourth = book_->admit_sandbox(agent, &refused);
  ASSERT_FALSE(fourth) << "of many at once those for which there is room";
  EXPECT_EQ(fourth.error().code, ErrorCode::kLimit);
  EXPECT_EQ(refused.limit, seconds_per_day(3));
  EXPECT_EQ(refused.reserved, 3);
  EXPECT_TRUE(refused.resets_at_ms);
  EXPECT_TRUE(book_->admit_sandbox(other)) << "nobody else is stopped";
  book_->hold_sandboxes({{agent, 2}});
  EXPECT_TRUE(book_->admit_sandbox(agent)) << "what was admitted and never made is forgotten";
  EXPECT_FALSE(book_->admit_sandbox("mk_nobody"));
}

TEST_F(BookTest, ASandboxThatRunsCountsWhileItRunsAndOnceWhenItHasEnded) {
  open();
  const std::string project = add_key({seconds_per_day(100)});
  const std::string agent = add_key({}, project, KeyKind::kAgent);
  book_->hold_sandboxes({{agent, 99}});
  EXPECT_TRUE(book_->admit_sandbox(agent));
  book_->hold_sandboxes({{agent, 100}});
  EXPECT_EQ(book_->held(project)[What::kSandboxSeconds], 100);
  EXPECT_EQ(book_->admit_sandbox(project).error().code, ErrorCode::kLimit);
  EXPECT_EQ(begin(agent).error().code, ErrorCode::kLimit) << "nor is a model called for it";
  // Two ran, and one has ended: what it came to moves from what runs to what is used.
  EXPECT_TRUE(run(book_->charge_sandbox(agent, "sbx_a", 60)).value());
  EXPECT_EQ(book_->held(project)[What::kSandboxSeconds], 40);
  EXPECT_EQ(book_->used(project, Window::kDay)[What::kSandboxSeconds], 60);
  book_->hold_sandboxes({});
  EXPECT_EQ(book_->held(project)[What::kSandboxSeconds], 0);
  EXPECT_TRUE(book_->admit_sandbox(agent));
  EXPECT_TRUE(begin(agent));
}

TEST_F(BookTest, ASandboxThatRunsWarnsBeforeItsTimeIsUsedUp) {
  std::vector<Warning> warnings;
  book_->set_alarm([&](const Warning& warning) { warnings.push_back(warning); });
  const std::string project = add_key({seconds_per_day(100)});
  EXPECT_TRUE(run(book_->charge_sandbox(project, "sbx_a", 30)));
  book_->hold_sandboxes({{project, 49}});
  EXPECT_THAT(warnings, SizeIs(0));
  for (const std::int64_t seconds : {50, 52}) book_->hold_sandboxes({{project, seconds}});
  ASSERT_THAT(warnings, SizeIs(1)) << "once in its window";
  EXPECT_EQ(warnings[0].limit, seconds_per_day(100));
  EXPECT_EQ(warnings[0].used, 80);
}

TEST_F(BookTest, SandboxesThatCostMoneyAreStoppedWithModelsWhenItIsSpent) {
  options_.sandbox_second_nano = 10;
  open();
  const std::string key = add_key({per_day(150)});
  book_->hold_sandboxes({{key, 5}});
  EXPECT_FALSE(begin(key, 91)) << "of 150 are 50 taken by what runs";
  EXPECT_TRUE(begin(key));
  book_->hold_sandboxes({{key, 15}});
  EXPECT_EQ(book_->admit_sandbox(key).error().code, ErrorCode::kLimit);
  EXPECT_EQ(begin(key, 0).error().code, ErrorCode::kLimit);
}

TEST_F(BookTest, WhatARevokedKeysSandboxesHeldIsGivenBackToThoseAbove) {
  const std::string project = add_key({seconds_per_day(100)});
  const std::string agent = add_key({}, project, KeyKind::kAgent);
  book_->hold_sandboxes({{agent, 100}, {"mk_nobody", 100}});
  ASSERT_TRUE(run(book_->keys().revoke(agent)));
  EXPECT_FALSE(book_->admit_sandbox(project));
  book_->hold_sandboxes({{project, 99}});
  EXPECT_EQ(book_->held(project)[What::kSandboxSeconds], 99);
  EXPECT_TRUE(book_->admit_sandbox(project));
}

TEST_F(BookTest, OnlyKeysThatHaveSandboxesLimitThem) {
  const auto root = run(book_->keys().ensure_root("default"));
  const auto agent = run(book_->keys().ensure_agent("default", "writer"));
  EXPECT_FALSE(book_->limits_sandboxes(*root));
  const auto limited = [&](const std::string& id, Limit limit) {
    const auto key = run(book_->keys().update(id, {.limits = std::vector<Limit>{limit}}));
    return book_->limits_sandboxes(*key);
  };
  EXPECT_TRUE(limited(root->id, seconds_per_day(5)));
  EXPECT_TRUE(limited(agent->id, seconds_per_day(5)));
  EXPECT_FALSE(limited(root->id, per_day(5))) << "sandboxes cost nothing";
  EXPECT_FALSE(limited(add_key({}), seconds_per_day(5)));
  options_.sandbox_second_nano = 1;
  open();
  EXPECT_TRUE(limited(root->id, per_day(5)));
}

TEST_F(BookTest, ACallThatTheLedgerHasIsNotLostWhateverTheJournalForgot) {
  const std::string key = add_key({});
  const auto journals = [&] {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(journal_directory()))
      if (entry.path().filename() != "lock") found.push_back(entry.path());
    return found;
  };
  auto call = begin(key);
  ASSERT_TRUE(call);
  call->sent();
  // A disk that never wrote what came after this, and the store did.
  ASSERT_THAT(journals(), SizeIs(1));
  const auto file = journals().front();
  const auto torn = std::filesystem::path(directory_) / "torn";
  std::filesystem::copy_file(file, torn);
  call->settle({.input = 10, .output = 5}, Outcome::kDone);
  ASSERT_TRUE(run(book_->flush()));
  book_.reset();
  for (const auto& left : journals()) std::filesystem::remove(left);
  std::filesystem::copy_file(torn, file);
  open();
  EXPECT_EQ(money(key), 15);
  EXPECT_EQ(number("SELECT count(*) FROM model_calls"), 1);
  open();
  EXPECT_EQ(money(key), 15);
}

TEST_F(BookTest, SoftLimitsWarnOnceAlsoOverARestart) {
  std::vector<Warning> warnings;
  const auto hear = [&] {
    book_->set_alarm([&](const Warning& warning) { warnings.push_back(warning); });
  };
  hear();
  const std::string key = add_key({per_day(100)});
  begin(key)->settle({.output = 80}, Outcome::kDone);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].node, key);
  EXPECT_EQ(warnings[0].used, 80);
  open();
  hear();
  begin(key, 0)->settle({.output = 5}, Outcome::kDone);
  EXPECT_THAT(warnings, SizeIs(1));
}

TEST_F(BookTest, ASoftLimitWarnsWhateverIsCharged) {
  std::vector<std::string> warned;
  book_->set_alarm([&](const Warning& warning) { warned.push_back(warning.node); });
  const std::string sandboxes =
      add_key({{.what = What::kSandboxSeconds, .amount = 100, .window = Window::kDay}});
  EXPECT_TRUE(run(book_->charge_sandbox(sandboxes, "sbx_a", 90)));
  EXPECT_THAT(warned, testing::ElementsAre(sandboxes));
  const std::string lost = add_key({per_day(100)});
  {
    auto call = begin(lost);
    call->sent();
    call->progress({.input = 10, .output = 80});
  }
  EXPECT_THAT(warned, testing::ElementsAre(sandboxes, lost)) << "a call that was dropped";
}

TEST_F(BookTest, UsageIsAskedForByKeyModelAndDayInPages) {
  const std::string one = add_key({});
  const std::string two = add_key({});
  for (int day = 0; day < 3; ++day) {
    for (const std::string& key : {one, two}) begin(key)->settle({.output = 1}, Outcome::kDone);
    clock_.now_ms += kDayMs;
  }
  const std::int64_t today = clock_.now_ms / kDayMs;
  const auto ask = [&](UsageQuery query) {
    query.project_id = "default";
    return run(book_->usage(std::move(query)))->size();
  };
  EXPECT_EQ(ask({}), 9U);
  EXPECT_EQ(ask({.node_id = one}), 3U);
  EXPECT_EQ(ask({.model = "other"}), 0U);
  EXPECT_EQ(ask({.node_id = one, .first_day = today - 2, .last_day = today - 2}), 1U);
  EXPECT_EQ(ask({.rows_max = 4, .skip = 8}), 1U);
  EXPECT_THAT(*run(book_->usage({.project_id = "other"})), IsEmpty());
}

TEST_F(BookTest, ABusyJournalGoesIntoTheStoreByItselfAndIsGone) {
  options_.journal_file_bytes = 4096;
  options_.store_interval = std::chrono::milliseconds(20);
  open();
  const std::string key = add_key({});
  run(make_calls(key));
  ASSERT_TRUE(run(book_->flush()));
  EXPECT_EQ(number("SELECT count(*) FROM model_calls"), kCalls);
  EXPECT_EQ(number("SELECT SUM(requests) FROM model_usage WHERE node_id = '" + key + "'"), kCalls);
  EXPECT_EQ(money(key), kCalls);
  book_.reset();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(journal_directory()))
    files += entry.path().filename() == "lock" ? 0 : 1;
  EXPECT_EQ(files, 1);
}

TEST_F(BookTest, OldCallsGoAndTheirSumsStay) {
  options_.calls_kept_days = 2;
  options_.store_interval = std::chrono::milliseconds(5);
  open();
  const std::string key = add_key({});
  begin(key)->settle({.output = 9}, Outcome::kDone);
  ASSERT_TRUE(run(book_->flush()));
  clock_.now_ms += 3 * kDayMs;
  while (number("SELECT count(*) FROM model_calls") > 0) continue;
  EXPECT_EQ(usage(key)->front().usage.output, 9);
  open();
  EXPECT_EQ(money(key), 9);
}

// ---- random calls over a random tree, with restarts

class BookPropertyTest : public BookTest {
 protected:
  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }

  void plant() {
    keys_ = {root()};
    kinds_ = {KeyKind::kOrg};
    for (int i = 0; i < 10; ++i) {
      const auto parent = static_cast<std::size_t>(pick(static_cast<int>(keys_.size())));
      if (kinds_[parent] == KeyKind::kSession) continue;
      const auto kind = static_cast<KeyKind>(static_cast<int>(kinds_[parent]) + 1);
      std::vector<Limit> limits;
      for (std::size_t what = 0; what < kWhats; ++what)
        if (pick(3) == 0)
          limits.push_back({.what = static_cast<What>(what),
                            .amount = 200 + pick(3000),
                            .window = static_cast<Window>(pick(kWindows))});
      keys_.push_back(add_key(limits, keys_[parent], kind));
      kinds_.push_back(kind);
      limits_[keys_.back()] = limits;
    }
  }
  const std::string& any_key() {
    return keys_[static_cast<std::size_t>(pick(static_cast<int>(keys_.size())))];
  }
  void step() {
    if (pick(20) == 0) clock_.now_ms += pick(static_cast<int>(2 * kDayMs));
    if (pick(20) == 0) clock_.now_ms -= pick(static_cast<int>(kHourMs));
    if (pick(2) == 0) {
      if (auto call = begin(any_key(), pick(90))) calls_.push_back(std::move(*call));
      return;
    }
    if (pick(10) == 0)
      (void)run(book_->charge_sandbox(any_key(), std::to_string(pick(1'000)), 1 + pick(20)));
    if (calls_.empty()) return;
    const auto which = pick(static_cast<int>(calls_.size()));
    Call call = std::move(calls_[static_cast<std::size_t>(which)]);
    calls_.erase(calls_.begin() + which);
    const int end = pick(4);
    if (end > 1) call.sent();
    if (end == 2) call.progress({.output = pick(2)});
    // No call comes to more than it reserved.
    if (end == 3) call.settle({.input = pick(11)}, Outcome::kDone);
  }
  std::map<std::string, Amounts> everything_used() {
    std::map<std::string, Amounts> all;
    for (const std::string& key : keys_)
      for (std::size_t w = 0; w < kWindows; ++w)
        all[key + std::to_string(w)] = book_->used(key, static_cast<Window>(w));
    return all;
  }
  void check_limits() {
    for (const auto& [key, limits] : limits_)
      for (const Limit& limit : limits) {
        if (limit.what == What::kSandboxSeconds) continue;  // charged afterwards
        ASSERT_LE(book_->used(key, limit.window)[limit.what] + book_->reserved(key)[limit.what],
                  limit.amount);
      }
  }
  void check_ledger() {
    ASSERT_TRUE(run(book_->flush()));
    for (const std::string& key : keys_) {
      const std::string of_key = " FROM model_calls WHERE instr(path, '" + key + "') > 0";
      ASSERT_EQ(money(key), number("SELECT COALESCE(SUM(cost_nano), 0)" + of_key));
      ASSERT_EQ(book_->used(key, Window::kTotal)[What::kRequests],
                number("SELECT COALESCE(SUM(requests), 0)" + of_key));
    }
  }

  std::mt19937 random_{7};
  std::vector<std::string> keys_;
  std::vector<KeyKind> kinds_;
  std::map<std::string, std::vector<Limit>> limits_;
  std::vector<Call> calls_;
};

TEST_F(BookPropertyTest, CountersAreTheSumOfTheLedgerAndARestartFindsTheSame) {
  plant();
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < 100; ++i) step();
    check_limits();
    check_ledger();
    calls_.clear();
    ASSERT_TRUE(run(book_->flush()));
    // A process that begins before the latest time that was seen would have other windows.
    clock_.now_ms += kHourMs;
    const auto before = everything_used();
    open();
    EXPECT_EQ(everything_used(), before) << "round " << round;
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace pons::budget
