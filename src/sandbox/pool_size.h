#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "pons/base/clock.h"

namespace pons::sandbox {

struct PoolBounds {
  std::size_t warm_min = 2;
  std::size_t warm_max = 128;
};

// How many sandboxes should wait ready: enough for the claims that come while replacements are
// built, by the rate of claims in the last seconds and the measured time of a build; and enough for
// the largest burst of the last minutes, because who asks for a hundred at once does it again.
class PoolSize {
 public:
  void claimed(TimePoint now) {
    rate_ = rate_at(now) + 1.0 / kWindowSeconds;
    last_claim_ = now;
    if (now - burst_began_ > kBurstTime) {
      burst_began_ = now;
      burst_ = 0;
    }
    if (++burst_ < largest_burst_at(now)) return;
    largest_burst_ = burst_;
    largest_burst_ended_ = now;
  }
  void built(Duration took) {
    const double seconds = std::chrono::duration<double>(took).count();
    build_seconds_ += (seconds - build_seconds_) * 0.2;
  }

  // Claims per second.
  double rate_at(TimePoint now) const {
    const double passed = std::chrono::duration<double>(now - last_claim_).count();
    return rate_ * std::exp(-passed / kWindowSeconds);
  }
  // Claims that came nearly at once, a while ago the fewer.
  double largest_burst_at(TimePoint now) const {
    const double passed = std::chrono::duration<double>(now - largest_burst_ended_).count();
    return largest_burst_ * std::exp(-passed / kBurstMemorySeconds);
  }
  std::size_t target(TimePoint now, const PoolBounds& bounds) const {
    // Twice what a steady stream needs, since claims do not come evenly.
    const double stream = rate_at(now) * build_seconds_ * 2.0 * kBuildsAtOnce;
    // A single claim is no burst.
    const double burst = largest_burst_at(now) - 1.0;
    const double expected = std::max(stream, burst);
    const auto wanted = bounds.warm_min + static_cast<std::size_t>(std::ceil(expected - 0.01));
    return std::min(wanted, bounds.warm_max);
  }
  Duration idle_time(TimePoint now) const { return now - last_claim_; }
  void touch(TimePoint now) { last_claim_ = std::max(last_claim_, now); }

  static constexpr int kBuildsAtOnce = 2;

 private:
  static constexpr double kWindowSeconds = 10.0;
  static constexpr Duration kBurstTime = std::chrono::milliseconds(250);
  static constexpr double kBurstMemorySeconds = 180.0;
  double rate_ = 0;
  double build_seconds_ = 0.005;
  TimePoint last_claim_{};
  double burst_ = 0;  // claims since burst_began_
  TimePoint burst_began_{};
  double largest_burst_ = 0;
  TimePoint largest_burst_ended_{};
};

}  // namespace pons::sandbox
