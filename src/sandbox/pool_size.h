#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "pons/base/clock.h"

namespace pons::sandbox {

struct PoolBounds {
  std::size_t warm_min = 2;
  std::size_t warm_max = 64;
};

// How many sandboxes should wait ready: enough for the claims that come while replacements are
// built, by the rate of claims in the last seconds and the measured time of a build.
class PoolSize {
 public:
  void claimed(TimePoint now) {
    rate_ = rate_at(now) + 1.0 / kWindowSeconds;
    last_claim_ = now;
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
  std::size_t target(TimePoint now, const PoolBounds& bounds) const {
    // Twice what a steady stream needs, since claims come in bursts.
    const double expected = rate_at(now) * build_seconds_ * 2.0 * kBuildsAtOnce;
    const auto wanted = bounds.warm_min + static_cast<std::size_t>(std::ceil(expected - 0.01));
    return std::min(wanted, bounds.warm_max);
  }
  Duration idle_time(TimePoint now) const { return now - last_claim_; }
  void touch(TimePoint now) { last_claim_ = std::max(last_claim_, now); }

  static constexpr int kBuildsAtOnce = 2;

 private:
  static constexpr double kWindowSeconds = 10.0;
  double rate_ = 0;
  double build_seconds_ = 0.005;
  TimePoint last_claim_{};
};

}  // namespace pons::sandbox
