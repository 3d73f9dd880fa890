#include "pons/egress/minute_budget.h"

#include <algorithm>

namespace pons::egress {

bool MinuteBudget::take(std::uint32_t per_minute, TimePoint now) {
  const double full = per_minute;
  const double minutes = std::chrono::duration<double>(now - counted_at_).count() / 60;
  left_ = left_ < 0 ? full : std::min(full, left_ + full * minutes);
  counted_at_ = now;
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

}  // namespace pons::egress
