#include "flow_share.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace pons::egress {
namespace {

// Lets sandboxes take connections in turn until nobody gets one.
std::uint64_t take_all(std::vector<std::uint64_t>& sandboxes, std::uint64_t policy_limit) {
  std::uint64_t open = std::accumulate(sandboxes.begin(), sandboxes.end(), std::uint64_t{0});
  for (bool any = true; any;) {
    any = false;
    for (std::uint64_t& own : sandboxes) {
      if (own >= flow_share(open, policy_limit)) continue;
      ++own;
      ++open;
      any = true;
    }
  }
  return open;
}

TEST(FlowShare, OneSandboxCannotUseUpWhatAllShare) {
  std::vector<std::uint64_t> sandboxes(1);
  EXPECT_EQ(take_all(sandboxes, 65'535), kFlowsMax / 2);
}

TEST(FlowShare, WhoComesLateGetsAsMuchAsThoseWhoTookAllTheyCould) {
  for (const std::size_t greedy : {1U, 3U, 31U, 100U, 999U}) {
    std::vector<std::uint64_t> sandboxes(greedy);
    const std::uint64_t open = take_all(sandboxes, 65'535);
    const std::uint64_t left = flow_share(open, 65'535);
    EXPECT_GE(left + 1, kFlowsMax / (greedy + 1)) << greedy;
    EXPECT_GE(left, 7U) << greedy;
  }
}

TEST(FlowShare, ThePolicyStillHolds) {
  std::vector<std::uint64_t> sandboxes(3);
  EXPECT_EQ(take_all(sandboxes, 256), 3 * 256U);
  EXPECT_EQ(flow_share(kFlowsMax + 1, 256), 0U);
}

}  // namespace
}  // namespace pons::egress
