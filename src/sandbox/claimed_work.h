#pragma once

#include <algorithm>

#include "pons/base/clock.h"

namespace pons::sandbox {

// How long the processors are likely to be busy with what was claimed: each sandbox brings a first
// command and an end of its own. To build the next ones meanwhile would be at the cost of these.
class ClaimedWork {
 public:
  explicit ClaimedWork(unsigned processors) : share_(kWorkOfOne / std::max(processors, 1U)) {}
  void claimed(TimePoint now) {
    busy_until_ = std::min(std::max(busy_until_, now) + share_, now + kPatience);
  }
  TimePoint busy_until() const { return busy_until_; }

 private:
  static constexpr Duration kWorkOfOne = std::chrono::milliseconds(8);
  static constexpr Duration kPatience = std::chrono::milliseconds(250);
  Duration share_;
  TimePoint busy_until_{};
};

}  // namespace pons::sandbox
