#include "event_cutter.h"

#include <gtest/gtest.h>

#include <vector>

namespace pons::gateway {
namespace {

std::vector<std::string> cut(std::string_view text, std::size_t piece) {
  EventCutter cutter;
  std::vector<std::string> events;
  while (!text.empty()) {
    cutter.add(text.substr(0, piece));
    text.remove_prefix(std::min(piece, text.size()));
    while (true) {
      const auto event = cutter.next();
      EXPECT_TRUE(event);
      if (!event || !*event) break;
      events.emplace_back(**event);
    }
  }
  return events;
}

std::string joined(const std::vector<std::string>& events) {
  std::string all;
  for (const std::string& event : events) all += event;
  return all;
}

TEST(EventCutterTest, EventsAreCutWhereBlankLinesAre) {
  const std::string text = "event: a\ndata: 1\n\ndata: 2\n\n: note\n\n";
  for (const std::size_t piece : {1U, 2U, 3U, 7U, 100U}) {
    const auto events = cut(text, piece);
    ASSERT_EQ(events.size(), 3U) << piece;
    EXPECT_EQ(events[0], "event: a\ndata: 1\n\n");
    EXPECT_EQ(events[1], "data: 2\n\n");
  }
}

TEST(EventCutterTest, NoByteIsLostOrDoubledWhateverTheLineBreaks) {
  const std::string text = "data: 1\r\n\r\ndata: 2\r\rdata: 3\n\r\ndata: 4\r\n\ndata: 5\n\n";
  for (std::size_t piece = 1; piece <= text.size(); ++piece)
    EXPECT_EQ(joined(cut(text, piece)), text) << piece;
}

TEST(EventCutterTest, WhatBreaksOffIsNeverGiven) {
  EventCutter cutter;
  cutter.add("data: 1\n\ndata: 2\n");
  EXPECT_TRUE(cutter.next().value());
  EXPECT_FALSE(cutter.next().value());
  EXPECT_TRUE(cutter.has_rest());
}

TEST(EventCutterTest, AnEventWithoutEndIsGivenUp) {
  EventCutter cutter(1'000);
  for (int i = 0; i < 20; ++i) {
    cutter.add(std::string(100, 'x'));
    const auto event = cutter.next();
    if (!event) {
      EXPECT_EQ(event.error().code, ErrorCode::kLimit);
      EXPECT_LE(i, 11);
      return;
    }
  }
  FAIL();
}

}  // namespace
}  // namespace pons::gateway
