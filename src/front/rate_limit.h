#pragma once

#include <map>
#include <string>

#include "pons/base/clock.h"

namespace pons::front {

// How fast each key may ask: so many requests a second, and as many at once. A bucket that fills
// up again is forgotten.
class RateLimit {
 public:
  explicit RateLimit(std::uint32_t per_second) : per_second_(per_second) {}

  // Zero when the request may pass; otherwise how long to wait.
  Duration take(const std::string& key, TimePoint now);

 private:
  struct Bucket {
    double left = 0;
    TimePoint at{};
  };
  double per_second_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace pons::front
