#pragma once

#include <chrono>
#include <cstddef>

#include "pons/base/clock.h"

namespace pons::egress {

// What costs a sandbox a byte to send may cost milliseconds to look at, and comes without a pause:
// work on it is done in slices, and after some of them the others have a turn.
class Turn {
 public:
  static constexpr std::size_t kSliceBytes = 16 * 1024;
  // Of what unpacks to up to a thousand times as much.
  static constexpr std::size_t kPackedSliceBytes = 128;

  void begin() { begun_ = std::chrono::steady_clock::now(); }
  // After a slice of work that began at begin(). True: time for loop.next_round().
  bool is_over() {
    worked_ += std::chrono::steady_clock::now() - begun_;
    if (worked_ < kTime) return false;
    worked_ = {};
    return true;
  }

 private:
  static constexpr Duration kTime = std::chrono::milliseconds(1);
  std::chrono::steady_clock::time_point begun_;
  Duration worked_{};
};

}  // namespace pons::egress
