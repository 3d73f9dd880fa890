#pragma once

#include <chrono>
#include <cstdint>

#include "pons/base/clock.h"

// Times as the store has them, in milliseconds, and as timetables have them, in seconds.

namespace pons::schedule {

inline std::int64_t to_ms(std::chrono::sys_seconds instant) {
  return std::chrono::milliseconds(instant.time_since_epoch()).count();
}
inline std::chrono::sys_seconds from_ms(std::int64_t ms) {
  return std::chrono::floor<std::chrono::seconds>(
      std::chrono::sys_time<std::chrono::milliseconds>(std::chrono::milliseconds(ms)));
}
inline std::int64_t wall_ms(const Clock& clock) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock.wall().time_since_epoch())
      .count();
}

}  // namespace pons::schedule
