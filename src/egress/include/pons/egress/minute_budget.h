#pragma once

#include <cstdint>

#include "pons/base/clock.h"

namespace pons::egress {

// So many a minute: fills again with time, up to what one minute allows.
class MinuteBudget {
 public:
  bool take(std::uint32_t per_minute, TimePoint now);

 private:
  double left_ = -1;  // not used yet
  TimePoint counted_at_;
};

}  // namespace pons::egress
