#include "limits_met.h"

#include <gtest/gtest.h>

namespace pons::sandbox {
namespace {

spawner::Values nothing_counted() {
  spawner::Values usage;
  usage.fill(~0ULL);
  return usage;
}

constexpr spawner::SandboxLimits kLimits{
    .memory_bytes = 64'000'000, .pids = 64, .disk_bytes = 32'000'000, .disk_inodes = 1'000};

TEST(LimitsMetTest, WhereNothingIsCountedNothingWasMet) {
  EXPECT_EQ(limits_met(nothing_counted(), kLimits, {}), "");
  EXPECT_EQ(limits_met(nothing_counted(), {}, {}), "");
}

TEST(LimitsMetTest, WhatIsFullIsNamedWithItsFiguresAndWhatIsNotIsNot) {
  auto usage = nothing_counted();
  usage[spawner::kDiskBytes] = 30'000'000;
  usage[spawner::kDiskInodes] = 900;
  EXPECT_EQ(limits_met(usage, kLimits, {}), "");
  usage[spawner::kDiskBytes] = 31'900'000;
  EXPECT_EQ(limits_met(usage, kLimits, {}), "disk full: 31900000 of 32000000 bytes are in use");
  usage[spawner::kDiskInodes] = 1'000;
  EXPECT_EQ(limits_met(usage, kLimits, {}),
            "disk full: 31900000 of 32000000 bytes are in use; "
            "too many files: 1000 of 1000 inodes are in use");
}

TEST(LimitsMetTest, WhatHappenedBeforeTheJobIsNotHeldAgainstIt) {
  auto usage = nothing_counted();
  usage[spawner::kOomKills] = 2;
  usage[spawner::kPidsRefused] = 7;
  usage[spawner::kMemoryPeakBytes] = 63'999'000;
  EXPECT_EQ(limits_met(usage, kLimits, {.oom_kills = 2, .pids_refused = 7}), "");
  EXPECT_EQ(limits_met(usage, kLimits, {.oom_kills = 1, .pids_refused = 4}),
            "out of memory: the limit is 64000000 bytes, at most 63999000 were in use; "
            "too many processes: the limit is 64 with all threads, 3 more were refused");
}

TEST(LimitsMetTest, CountsNeverGoBack) {
  LimitCounts counts{.oom_kills = 3, .pids_refused = 1};
  counts.raise_to(LimitCounts::of(nothing_counted()));
  counts.raise_to({.oom_kills = 2, .pids_refused = 5});
  EXPECT_EQ(counts.oom_kills, 3U);
  EXPECT_EQ(counts.pids_refused, 5U);
}

}  // namespace
}  // namespace pons::sandbox
