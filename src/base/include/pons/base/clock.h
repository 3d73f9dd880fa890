#pragma once

#include <chrono>

namespace pons {

using Duration = std::chrono::nanoseconds;

// Steady time, for deadlines. Never shown to anyone.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// Wall time, for records and people.
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;

inline constexpr TimePoint kNever = TimePoint::max();

// Where code that must be tested with time gets its time from.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  virtual WallTime wall() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  WallTime wall() const override { return std::chrono::system_clock::now(); }
};

// Time that moves only when a test says so.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  WallTime wall() const override { return WallTime(now_.time_since_epoch()); }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{std::chrono::hours(24)};
};

}  // namespace pons
