#include "pons/telemetry/trace_parent.h"

#include <gtest/gtest.h>

namespace pons::telemetry {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kSpan = "00f067aa0ba902b7";

TEST(TraceParent, SaysOfWhichTraceAndSpanSomethingIsAPart) {
  const TraceParent parent{.trace_id = kTrace, .span_id = kSpan};
  EXPECT_EQ(read_trace_parent("00-" + kTrace + "-" + kSpan + "-01"), parent);
  EXPECT_EQ(read_trace_parent("00-" + kTrace + "-" + kSpan + "-00"), parent);
  EXPECT_EQ(read_trace_parent("cc-" + kTrace + "-" + kSpan + "-01-what-may-come"), parent);
}

TEST(TraceParent, WhatIsNotExactlyOneIsNone) {
  const std::string zeros(32, '0');
  for (const std::string& wrong :
       {std::string(), std::string("00"), "00-" + kTrace + "-" + kSpan,
        "00-" + kTrace + "-" + kSpan + "-1", "00-" + kTrace + "-" + kSpan + "-0x",
        "00-" + kTrace + "-" + kSpan + "-01-more", "cc-" + kTrace + "-" + kSpan + "-01more",
        "ff-" + kTrace + "-" + kSpan + "-01", "0-" + kTrace + "-" + kSpan + "-010",
        "00-" + zeros + "-" + kSpan + "-01", "00-" + kTrace + "-" + zeros.substr(16) + "-01",
        "00-" + kTrace.substr(1) + "G-" + kSpan + "-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + kSpan + "-01",
        "00_" + kTrace + "-" + kSpan + "-01", " 00-" + kTrace + "-" + kSpan + "-0"})
    EXPECT_EQ(read_trace_parent(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace pons::telemetry
