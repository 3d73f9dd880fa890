#pragma once

#include <map>
#include <string>

#include "pons/base/clock.h"

namespace pons::front {

// How fast somebody may ask: so many requests a second, and as many at once. A bucket that fills
// up again is forgotten.
class RateLimit {
 public:
  // Zero when the request may pass; otherwise how long to wait.
  Duration take(const std::string& who, double per_second, TimePoint now);

 private:
  struct Bucket {
    double left = 0;
    TimePoint at{};
  };
  std::map<std::string, Bucket> buckets_;
};

}  // namespace pons::front
