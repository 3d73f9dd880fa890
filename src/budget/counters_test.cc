#include "pons/budget/counters.h"

#include <gmock/gmock.h>

#include <random>

namespace pons::budget {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kNow = 1'700'000'000'000;
constexpr std::int64_t kDay = 86'400'000;

Amounts money(std::int64_t amount) {
  Amounts amounts;
  amounts[What::kMoney] = amount;
  amounts[What::kRequests] = 1;
  return amounts;
}
Estimate estimate(std::int64_t most) {
  return {.most = money(most), .if_lost = money(most / 2)};
}
Limit per_day(std::int64_t amount) {
  return {.what = What::kMoney, .amount = amount, .window = Window::kDay};
}

class CountersTest : public ::testing::Test {
 protected:
  CountersTest() {
    counters_.put("org", "", {per_day(100)}, 80);
    counters_.put("user", "org", {per_day(60)}, 80);
    counters_.put("other", "org", {}, 80);
  }
  std::int64_t used(const char* node) {
    return counters_.used(node, Window::kDay, kNow)[What::kMoney];
  }
  std::int64_t reserved(const char* node) { return counters_.reserved(node)[What::kMoney]; }

  Counters counters_;
};

TEST_F(CountersTest, AReservationCountsForTheNodeAndAllAboveUntilItIsSettled) {
  auto held = counters_.reserve("user", estimate(40), kNow);
  ASSERT_TRUE(held);
  EXPECT_EQ(reserved("user"), 40);
  EXPECT_EQ(reserved("org"), 40);
  EXPECT_EQ(reserved("other"), 0);
  EXPECT_TRUE(held->settle(money(7), kNow));
  EXPECT_EQ(reserved("org"), 0);
  EXPECT_EQ(used("user"), 7);
  EXPECT_EQ(used("org"), 7);
  EXPECT_EQ(used("other"), 0);
  EXPECT_EQ(counters_.used("org", Window::kMinute, kNow)[What::kRequests], 1);
  EXPECT_FALSE(held->settle(money(7), kNow)) << "only once";
  EXPECT_EQ(used("org"), 7);
}

TEST_F(CountersTest, ADroppedReservationIsGivenBack) {
  {
    auto held = counters_.reserve("user", estimate(40), kNow);
    auto moved = std::move(*held);
    *held = *counters_.reserve("user", estimate(5), kNow);
    EXPECT_EQ(reserved("user"), 45);
  }
  EXPECT_EQ(reserved("user"), 0);
  EXPECT_EQ(used("user"), 0);
  EXPECT_EQ(counters_.open_reservations(), 0U);
}

TEST_F(CountersTest, WhatDoesNotFitIsRefusedAndTheRefusalSaysWhereAndUntilWhen) {
  auto held = counters_.reserve("user", estimate(50), kNow);
  Refused why;
  const auto refused = counters_.reserve("user", estimate(11), kNow, &why);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
  EXPECT_THAT(refused.error().message, HasSubstr("user"));
  EXPECT_EQ(why.node, "user");
  EXPECT_EQ(why.limit, per_day(60));
  EXPECT_EQ(why.used, 0);
  EXPECT_EQ(why.reserved, 50);
  EXPECT_EQ(why.resets_at_ms, kNow - kNow % kDay + kDay);
  EXPECT_TRUE(counters_.reserve("user", estimate(10), kNow)) << "exactly the limit fits";
}

TEST_F(CountersTest, ALimitAboveHoldsForAllBelowTogether) {
  auto one = counters_.reserve("user", estimate(55), kNow);
  Refused why;
  const auto two = counters_.reserve("other", estimate(46), kNow, &why);
  ASSERT_FALSE(two);
  EXPECT_EQ(why.node, "org");
  EXPECT_EQ(reserved("other"), 0) << "a refusal holds nothing";
}

TEST_F(CountersTest, ANewWindowBeginsEmptyButWhatIsUnderWayStillCounts) {
  auto settled = counters_.reserve("user", estimate(30), kNow);
  settled->settle(money(30), kNow);
  auto open = counters_.reserve("user", estimate(30), kNow);
  EXPECT_FALSE(counters_.reserve("user", estimate(31), kNow));
  EXPECT_TRUE(counters_.reserve("user", estimate(30), kNow + kDay));
  EXPECT_FALSE(counters_.reserve("user", estimate(31), kNow + kDay));
  EXPECT_EQ(counters_.used("user", Window::kTotal, kNow + kDay)[What::kMoney], 30);
}

TEST_F(CountersTest, AClockThatGoesBackGivesNothingBack) {
  counters_.reserve("user", estimate(60), kNow + kDay)->settle(money(60), kNow + kDay);
  EXPECT_FALSE(counters_.reserve("user", estimate(1), kNow));
}

TEST_F(CountersTest, AnExpiredReservationIsSettledOnceAtWhatItIsIfLost) {
  auto held = counters_.reserve("user", estimate(40), kNow);
  auto renewed = counters_.reserve("user", estimate(10), kNow);
  EXPECT_THAT(counters_.sweep(kNow + 3'599'999), IsEmpty());
  renewed->renew(money(1), kNow + 3'000'000);
  EXPECT_THAT(counters_.sweep(kNow + 3'600'000), SizeIs(1));
  EXPECT_EQ(used("user"), 20);
  EXPECT_EQ(reserved("user"), 10);
  EXPECT_FALSE(held->settle(money(40), kNow + 3'600'001));
  EXPECT_EQ(used("user"), 20);
}

TEST_F(CountersTest, OneCallMayComeToMoreThanItWasEstimatedAtAndThenNothingGoes) {
  counters_.reserve("user", estimate(60), kNow)->settle(money(75), kNow);
  EXPECT_EQ(used("user"), 75);
  EXPECT_FALSE(counters_.reserve("user", estimate(1), kNow));
  EXPECT_TRUE(counters_.reserve("user", {}, kNow)) << "what costs nothing passes";
}

TEST_F(CountersTest, WhatHasHappenedIsCountedAndTheEndIsSaid) {
  EXPECT_TRUE(counters_.charge("user", money(59), kNow));
  Refused why;
  const auto over = counters_.charge("user", money(30), kNow, &why);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, ErrorCode::kLimit);
  EXPECT_EQ(why.used, 89);
  EXPECT_EQ(used("org"), 89);
}

TEST_F(CountersTest, EachLimitWarnsOncePerWindow) {
  counters_.reserve("user", estimate(47), kNow)->settle(money(47), kNow);
  EXPECT_THAT(counters_.take_warnings(), IsEmpty());
  counters_.reserve("user", estimate(1), kNow)->settle(money(1), kNow);
  const auto warnings = counters_.take_warnings();
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].node, "user");
  EXPECT_EQ(warnings[0].used, 48);
  counters_.put("user", "org", {per_day(60)}, 80);
  counters_.reserve("user", estimate(1), kNow)->settle(money(1), kNow);
  EXPECT_THAT(counters_.take_warnings(), IsEmpty());
  counters_.reserve("user", estimate(50), kNow + kDay)->settle(money(50), kNow + kDay);
  EXPECT_THAT(counters_.take_warnings(), SizeIs(1));
}

TEST_F(CountersTest, OtherLimitsForgetNothing) {
  counters_.reserve("user", estimate(50), kNow)->settle(money(50), kNow);
  counters_.put("user", "org", {{.what = What::kMoney, .amount = 55, .window = Window::kMonth}},
                80);
  EXPECT_FALSE(counters_.reserve("user", estimate(6), kNow));
  EXPECT_TRUE(counters_.reserve("user", estimate(5), kNow));
}

TEST_F(CountersTest, ARemovedNodeTakesNothingNewAndItsLastCallsStillCountAbove) {
  auto held = counters_.reserve("user", estimate(50), kNow);
  counters_.remove("user");
  EXPECT_EQ(counters_.reserve("user", estimate(1), kNow).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(reserved("org"), 50);
  EXPECT_TRUE(held->settle(money(49), kNow));
  EXPECT_EQ(used("org"), 49);
}

TEST_F(CountersTest, AbsurdEstimatesAreRefused) {
  EXPECT_EQ(counters_.reserve("other", estimate(-1), kNow).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(counters_.reserve("other", estimate(INT64_MAX), kNow).error().code,
            ErrorCode::kInvalid);
}

TEST_F(CountersTest, OfAThousandParallelCallsExactlyThoseThatFitGoThrough) {
  counters_.put("key", "org", {per_day(10)}, 80);
  std::vector<Reservation> held;
  for (int i = 0; i < 1000; ++i)
    if (auto one = counters_.reserve("key", estimate(1), kNow)) held.push_back(std::move(*one));
  EXPECT_EQ(held.size(), 10U);
  for (Reservation& one : held) one.settle(money(1), kNow);
  EXPECT_EQ(used("key"), 10);
}

// A random tree, random calls and a clock that jumps: against sums over everything settled.
class CountersModel {
 public:
  explicit CountersModel(unsigned seed) : random_(seed) {
    for (int i = 0; i < kNodes; ++i) {
      parents_.push_back(i == 0 ? -1 : pick(i));
      std::vector<Limit> limits;
      for (std::size_t what = 0; what < kWhats; ++what)
        if (pick(2) == 0)
          limits.push_back({.what = static_cast<What>(what),
                            .amount = 1 + pick(400),
                            .window = static_cast<Window>(pick(kWindows))});
      limits_.push_back(limits);
      counters_.put(name(i), i == 0 ? "" : name(parents_[i]), limits, 80);
    }
  }

  void step() {
    const int clock = pick(10);
    if (clock == 0) now_ += pick(100'000'000);
    if (clock == 1) now_ -= pick(1'000'000);
    const int what = pick(10);
    if (what < 5) {
      begin();
    } else if (!open_.empty()) {
      const std::size_t which = static_cast<std::size_t>(pick(static_cast<int>(open_.size())));
      if (what < 9) finish(which);
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }

  void compare() {
    latest_ = std::max(latest_, now_);
    for (int i = 0; i < kNodes; ++i) {
      Amounts reserved;
      for (const Call& call : open_)
        if (is_within(call.node, i)) reserved += call.most;
      ASSERT_EQ(counters_.reserved(name(i)), reserved);
      for (std::size_t w = 0; w < kWindows; ++w) {
        const auto window = static_cast<Window>(w);
        ASSERT_EQ(counters_.used(name(i), window, now_), sum(i, window));
      }
      for (const Limit& limit : limits_[i]) {
        const std::int64_t all = sum(i, limit.window)[limit.what] + reserved[limit.what];
        ASSERT_LE(all, limit.amount) << "no call comes to more than it reserved";
      }
    }
  }

 private:
  static constexpr int kNodes = 8;
  struct Call {
    int node;
    Amounts most;
    Reservation held;
  };
  struct Settled {
    int node;
    Amounts real;
    std::int64_t time;
  };

  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  static std::string name(int node) { return "n" + std::to_string(node); }
  bool is_within(int node, int above) const {
    for (; node >= 0; node = parents_[node])
      if (node == above) return true;
    return false;
  }
  Amounts sum(int node, Window window) const {
    Amounts all;
    for (const Settled& one : settled_)
      if (is_within(one.node, node) && one.time >= window_start(window, latest_)) all += one.real;
    return all;
  }
  void begin() {
    const int node = pick(kNodes);
    Amounts most;
    for (std::int64_t& amount : most.of) amount = pick(30);
    latest_ = std::max(latest_, now_);
    auto held = counters_.reserve(name(node), {.most = most, .if_lost = {}}, now_);
    if (held) open_.push_back({node, most, std::move(*held)});
  }
  void finish(std::size_t which) {
    Call& call = open_[which];
    Amounts real;
    for (std::size_t i = 0; i < kWhats; ++i)
      real.of[i] = pick(static_cast<int>(call.most.of[i]) + 1);
    latest_ = std::max(latest_, now_);
    ASSERT_TRUE(call.held.settle(real, now_));
    settled_.push_back({call.node, real, latest_});
  }

  std::mt19937 random_;
  Counters counters_{std::chrono::hours(100'000)};
  std::vector<int> parents_;
  std::vector<std::vector<Limit>> limits_;
  std::vector<Call> open_;
  std::vector<Settled> settled_;
  std::int64_t now_ = kNow;
  std::int64_t latest_ = kNow;
};

TEST(CountersProperty, NeverOverLimitsAndAlwaysTheSumOfWhatWasSettled) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    CountersModel model(seed);
    for (int i = 0; i < 400; ++i) {
      model.step();
      if (i % 20 == 0) model.compare();
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    model.compare();
  }
}

}  // namespace
}  // namespace pons::budget
