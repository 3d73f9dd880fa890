#include "body_memory.h"

#include "boundary_fixture.h"

namespace pons::egress {
namespace {

using BodyMemoryTest = BoundaryTest;

constexpr std::uint64_t kWindow = 8 << 20;

TEST_F(BodyMemoryTest, ASandboxHasItsShareAndNoMore) {
  std::vector<BodyMemory> held;
  while (auto memory = take_body_memory(*boundary_, *sandbox_, kWindow))
    held.push_back(std::move(*memory));
  EXPECT_EQ(held.size(), kBodyMemoryOfSandbox / kWindow);
  EXPECT_EQ(take_body_memory(*boundary_, *sandbox_, kWindow).error().code, "too_many_bodies");
  held.pop_back();
  EXPECT_TRUE(take_body_memory(*boundary_, *sandbox_, kWindow));
}

TEST_F(BodyMemoryTest, WhatOthersHoldIsLeftToThem) {
  boundary_->body_memory = kBodyMemoryOfAll - kWindow;
  const auto last = take_body_memory(*boundary_, *sandbox_, kWindow);
  EXPECT_TRUE(last);
  EXPECT_FALSE(take_body_memory(*boundary_, *sandbox_, 1));
}

TEST_F(BodyMemoryTest, WindowsShrinkWithTheirNumberAndLeaveHalf) {
  EXPECT_EQ(answer_window(*boundary_, *sandbox_), 4U << 20);
  std::vector<BodyMemory> held;
  std::uint64_t before = UINT64_MAX;
  for (int i = 0; i < 256; ++i) {
    const std::uint64_t window = answer_window(*boundary_, *sandbox_);
    EXPECT_LE(window, before);
    before = window;
    auto memory = take_body_memory(*boundary_, *sandbox_, window);
    ASSERT_TRUE(memory) << i;
    held.push_back(std::move(*memory));
  }
  EXPECT_EQ(before, 64U << 10);
  EXPECT_LE(sandbox_->body_memory, kBodyMemoryOfSandbox * 3 / 4);
  held.clear();
  EXPECT_EQ(answer_window(*boundary_, *sandbox_), 4U << 20);
}

TEST_F(BodyMemoryTest, EverythingIsGivenBack) {
  {
    auto memory = take_body_memory(*boundary_, *sandbox_, kWindow);
    ASSERT_TRUE(memory);
    BodyMemory moved = std::move(*memory);
    EXPECT_EQ(sandbox_->body_memory, kWindow);
  }
  EXPECT_EQ(sandbox_->body_memory, 0U);
  EXPECT_EQ(boundary_->body_memory, 0U);
}

}  // namespace
}  // namespace pons::egress
