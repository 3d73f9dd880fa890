#pragma once

#include <chrono>
#include <cstdint>

#include "pons/base/clock.h"

namespace pons::budget {

// Milliseconds since 1970, as the store keeps them.
inline std::int64_t moment_ms(const Clock& clock) {
  return std::chrono::floor<std::chrono::milliseconds>(clock.wall().time_since_epoch()).count();
}

}  // namespace pons::budget
