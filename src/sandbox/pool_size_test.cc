#include "pool_size.h"

#include <gtest/gtest.h>

#include "claimed_work.h"

namespace pons::sandbox {
namespace {

TEST(PoolSizeTest, GrowsWithTheRateOfClaimsAndShrinksWithoutThem) {
  ManualClock clock;
  PoolSize size;
  const PoolBounds bounds{.warm_min = 2, .warm_max = 20};
  size.built(std::chrono::milliseconds(20));
  EXPECT_EQ(size.target(clock.now(), bounds), 2U);
  for (int i = 0; i < 2000; ++i) {
    size.claimed(clock.now());
    clock.advance(std::chrono::milliseconds(10));
  }
  EXPECT_GT(size.target(clock.now(), bounds), 4U);
  clock.advance(std::chrono::minutes(9));
  EXPECT_LE(size.target(clock.now(), bounds), 3U);
  for (int i = 0; i < 20000; ++i) size.claimed(clock.now());
  EXPECT_EQ(size.target(clock.now(), bounds), 20U);
}

TEST(PoolSizeTest, ABurstFindsAsManyReadyAsTheLastOneWanted) {
  ManualClock clock;
  PoolSize size;
  const PoolBounds bounds{.warm_min = 2, .warm_max = 200};
  clock.advance(std::chrono::minutes(1));
  size.claimed(clock.now());
  EXPECT_LE(size.target(clock.now(), bounds), 3U) << "one claim is no burst";
  clock.advance(std::chrono::seconds(1));
  for (int i = 0; i < 100; ++i) {
    size.claimed(clock.now());
    clock.advance(std::chrono::milliseconds(2));
  }
  EXPECT_GE(size.target(clock.now(), bounds), 100U);
  clock.advance(std::chrono::seconds(10));
  size.claimed(clock.now());  // nor does it make forget one
  EXPECT_GE(size.target(clock.now(), bounds), 90U);
  clock.advance(std::chrono::minutes(20));
  EXPECT_LE(size.target(clock.now(), bounds), 3U);
}

TEST(ClaimedWorkTest, ReplacementsWaitForABurstButNotForLongAndNotWhereThereAreManyProcessors) {
  ManualClock clock;
  clock.advance(std::chrono::minutes(1));
  ClaimedWork two(2);
  ClaimedWork many(64);
  EXPECT_LE(two.busy_until(), clock.now());
  for (int i = 0; i < 20; ++i) {
    two.claimed(clock.now());
    many.claimed(clock.now());
  }
  EXPECT_EQ(two.busy_until() - clock.now(), std::chrono::milliseconds(80));
  EXPECT_LT(many.busy_until() - clock.now(), std::chrono::milliseconds(3));
  for (int i = 0; i < 1000; ++i) two.claimed(clock.now());
  EXPECT_EQ(two.busy_until() - clock.now(), std::chrono::milliseconds(250));
}

}  // namespace
}  // namespace pons::sandbox
