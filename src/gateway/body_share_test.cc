#include "body_share.h"

#include <gtest/gtest.h>

namespace pons::gateway {
namespace {

TEST(BodyShareTest, ABodyCountsWithItsCopyAsFarAsItHasCome) {
  BodyMemory memory{.bytes_max = 100};
  BodyShare share(memory);
  EXPECT_TRUE(share.grow_to(10));
  EXPECT_TRUE(share.grow_to(30));
  EXPECT_EQ(memory.bytes, 60);
}

TEST(BodyShareTest, WhatDoesNotFitBesideOthersIsRefusedAndCountsForNothing) {
  BodyMemory memory{.bytes_max = 100};
  BodyShare first(memory);
  BodyShare second(memory);
  EXPECT_TRUE(first.grow_to(30));
  EXPECT_TRUE(second.has_room_for(20));
  EXPECT_FALSE(second.has_room_for(21));
  EXPECT_TRUE(second.grow_to(20));
  EXPECT_FALSE(second.grow_to(21));
  EXPECT_FALSE(first.grow_to(31));
  EXPECT_EQ(memory.bytes, 100);
}

TEST(BodyShareTest, ARequestThatIsAloneFits) {
  BodyMemory memory{.bytes_max = 100};
  BodyShare share(memory);
  EXPECT_TRUE(share.grow_to(1'000));
  BodyShare other(memory);
  EXPECT_FALSE(other.grow_to(1));
}

TEST(BodyShareTest, WhoLeavesMakesRoomOnce) {
  BodyMemory memory{.bytes_max = 100};
  BodyShare other(memory);
  EXPECT_TRUE(other.grow_to(10));
  {
    BodyShare share(memory);
    EXPECT_TRUE(share.grow_to(20));
    const BodyShare moved = std::move(share);
    EXPECT_EQ(memory.bytes, 60);
  }
  EXPECT_EQ(memory.bytes, 20);
  other.leave();
  EXPECT_EQ(memory.bytes, 0);
  other.leave();
  EXPECT_EQ(memory.bytes, 0);
}

}  // namespace
}  // namespace pons::gateway
