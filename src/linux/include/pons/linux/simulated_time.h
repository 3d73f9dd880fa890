#pragma once

#include "pons/base/clock.h"

namespace pons::linux {

class Loop;

// While it lives, time on that loop, which is this thread's, stands still as long as anything is
// left to do, and then jumps to whatever is due next. What runs on such a loop and waits for
// nothing outside does the same each time. When nothing is left at all, the loop's run() returns.
class SimulatedTime {
 public:
  explicit SimulatedTime(Loop& loop);
  ~SimulatedTime();
  SimulatedTime(const SimulatedTime&) = delete;
  SimulatedTime& operator=(const SimulatedTime&) = delete;
};

}  // namespace pons::linux
