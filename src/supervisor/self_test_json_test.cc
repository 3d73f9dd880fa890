#include "pons/supervisor/self_test_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pons::supervisor {
namespace {

TEST(SelfTestJsonTest, OneBrokenPromiseBreaksTheWhole) {
  const roles::AttemptResult good{
      .name = "execve", .promise = "cannot start a program", .os_error = EPERM, .holds = true};
  const roles::AttemptResult bad{.name = "fork", .promise = "cannot make a process"};
  const Json whole = self_test_json(roles::Role::kBrain, {good, good});
  EXPECT_EQ(whole["role"], "brain");
  EXPECT_EQ(whole["holds"], true);
  const Json broken = self_test_json(roles::Role::kBrain, {good, bad});
  EXPECT_EQ(broken["holds"], false);
  ASSERT_EQ(broken["attempts"].size(), 2U);
  EXPECT_EQ(broken["attempts"][0]["answer"], "EPERM (Operation not permitted)");
  EXPECT_EQ(broken["attempts"][1]["name"], "fork");
  EXPECT_EQ(broken["attempts"][1]["answer"], "it worked");
  EXPECT_EQ(broken["attempts"][1]["holds"], false);
}

}  // namespace
}  // namespace pons::supervisor
