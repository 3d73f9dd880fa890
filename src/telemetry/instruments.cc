#include "pons/telemetry/instruments.h"

#include <numeric>

#include "pons/base/check.h"

namespace pons::telemetry {

Histogram::Histogram(std::span<const Duration> bounds) : bounds_(bounds) {
  CHECK(bounds.size() <= kBoundsMax);
}

void Histogram::observe(Duration took) {
  std::size_t place = 0;
  while (place < bounds_.size() && took > bounds_[place]) ++place;
  ++counts_[place];
  sum_ += took;
}

std::uint64_t Histogram::count() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

std::span<const Duration> short_bounds() {
  using namespace std::chrono_literals;
  static constexpr std::array<Duration, 14> kBounds = {
      100us, 250us, 500us, 1ms, 2500us, 5ms, 10ms, 25ms, 50ms, 100ms, 250ms, 1s, 2500ms, 10s};
  return kBounds;
}

std::span<const Duration> long_bounds() {
  using namespace std::chrono_literals;
  static constexpr std::array<Duration, 14> kBounds = {
      10ms, 25ms, 50ms, 100ms, 250ms, 500ms, 1s, 2500ms, 5s, 10s, 30s, 1min, 2min, 10min};
  return kBounds;
}

}  // namespace pons::telemetry
