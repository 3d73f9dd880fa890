#include "connect.h"

#include <gtest/gtest.h>

#include <string>

namespace pons::e2b {
namespace {

TEST(EnvelopeTest, WhatIsWrittenIsRead) {
  const std::string bytes = make_envelope(Envelope::kMessage, std::string(70'000, 'x')) + "more";
  for (std::size_t i = 0; i < 200; ++i)
    EXPECT_EQ(parse_envelope(std::string_view(bytes).substr(0, i), 1 << 20).state,
              EnvelopeParse::State::kNeedMore);
  const auto parse = parse_envelope(bytes, 1 << 20);
  EXPECT_EQ(parse.payload, std::string(70'000, 'x'));
  EXPECT_EQ(bytes.size() - parse.consumed, 4U);
  EXPECT_EQ(parse_envelope(bytes, 69'999).state, EnvelopeParse::State::kRefused);
  for (const char flags : {1, 2, 3, -1})
    EXPECT_EQ(parse_envelope({&flags, 1}, 1 << 20).state, EnvelopeParse::State::kRefused);
}

}  // namespace
}  // namespace pons::e2b
