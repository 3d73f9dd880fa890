#pragma once

#include <chrono>
#include <optional>
#include <random>

#include "pons/base/clock.h"
#include "pons/base/task.h"
#include "pons/linux/loop.h"

// For tests: decides what goes wrong, and when. The same seed decides the same.

namespace pons::session {

// The clock of a loop whose time is simulated. What it says to people may jump.
class JumpingClock final : public Clock {
 public:
  explicit JumpingClock(linux::Loop& loop) : loop_(loop), zero_(loop.now()) {}
  TimePoint now() const override { return loop_.now(); }
  WallTime wall() const override {
    return WallTime(std::chrono::hours(24 * 365)) + (loop_.now() - zero_) + jumped_;
  }
  void jump(Duration by) { jumped_ += by; }

 private:
  linux::Loop& loop_;
  TimePoint zero_;
  Duration jumped_{};
};

// What may go wrong at a wait.
enum class Fault : std::uint8_t {
  kDiesBefore,  // the process, and it has not happened
  kDiesAfter,   // it has happened, and the process never hears of it
  kIsSlow,
  kClockJumps,
  kDiskFills,
  kFailsBefore,
  kFailsAfter,
};
inline constexpr std::size_t kFaults = 7;

// The only thing that goes wrong.
struct OneFault {
  int wait = 0;  // at which, counted from one
  Fault fault = Fault::kDiesBefore;
};

class Fate {
 public:
  // `fault`: how likely each wait has one. `one`: beside those.
  Fate(linux::Loop& loop, JumpingClock& clock, std::uint64_t seed, double fault,
       std::optional<OneFault> one = std::nullopt)
      : loop_(loop), clock_(clock), fault_(fault), one_(one), random_(seed) {}

  enum class Turn : std::uint8_t { kWell, kFailsBefore, kFailsAfter };

  // Each wait of the world is one of these.
  Task<Turn> wait() {
    co_await loop_.sleep_for(std::chrono::microseconds(pick(20'000)));
    if (calm_) co_return Turn::kWell;
    ++waits;
    if (one_ && one_->wait == waits) co_return co_await suffer(one_->fault);
    if (strikes()) co_return co_await suffer(static_cast<Fault>(pick(kFaults)));
    co_return Turn::kWell;
  }
  // After something has happened in the world: the process may die before it hears of it.
  Task<> afterwards() {
    if (std::exchange(crash_after_, false) && !calm_) co_await die();
  }
  bool disk_is_full() const { return !calm_ && loop_.now() < disk_is_full_until_; }

  std::uint64_t pick(std::uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool strikes() { return static_cast<double>(random_() % 1'000'000) < fault_ * 1'000'000; }
  void calm_down() { calm_ = true; }
  bool is_calm() const { return calm_; }

  bool crash_wanted = false;
  int waits = 0;  // at which something could go wrong
  int faults = 0;

 private:
  Task<Turn> suffer(Fault fault) {
    ++faults;
    switch (fault) {
      case Fault::kDiesBefore:
        co_await die();
        co_return Turn::kFailsBefore;
      case Fault::kDiesAfter:
        crash_after_ = true;
        co_return Turn::kWell;
      case Fault::kIsSlow:
        co_await loop_.sleep_for(std::chrono::seconds(pick(60)));
        co_return Turn::kWell;
      case Fault::kClockJumps:
        clock_.jump(std::chrono::minutes(pick(240)) - std::chrono::minutes(120));
        co_return Turn::kWell;
      case Fault::kDiskFills:
        disk_is_full_until_ = loop_.now() + std::chrono::seconds(pick(120));
        co_return Turn::kFailsBefore;
      case Fault::kFailsBefore:
        co_return Turn::kFailsBefore;
      case Fault::kFailsAfter:
        co_return Turn::kFailsAfter;
    }
    co_return Turn::kWell;
  }
  // The process does not get to see what comes next.
  Task<> die() {
    crash_wanted = true;
    co_await loop_.sleep_for(std::chrono::hours(1'000));
  }

  linux::Loop& loop_;
  JumpingClock& clock_;
  double fault_;
  std::optional<OneFault> one_;
  std::mt19937_64 random_;
  bool calm_ = false;
  bool crash_after_ = false;
  TimePoint disk_is_full_until_{};
};

}  // namespace pons::session
