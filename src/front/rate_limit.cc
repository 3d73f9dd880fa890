#include "rate_limit.h"

#include <algorithm>

namespace pons::front {

Duration RateLimit::take(const std::string& who, double per_second, TimePoint now) {
  if (per_second <= 0) return std::chrono::seconds(1);
  constexpr std::size_t kBucketsMax = 10'000;
  if (buckets_.size() >= kBucketsMax)
    std::erase_if(buckets_, [&](const auto& entry) {
      return now - entry.second.at > std::chrono::seconds(1);
    });
  Bucket& bucket = buckets_.try_emplace(who, Bucket{.left = per_second, .at = now}).first->second;
  const double passed = std::chrono::duration<double>(now - bucket.at).count();
  bucket.left = std::min(per_second, bucket.left + passed * per_second);
  bucket.at = now;
  if (bucket.left < 1)
    return std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>((1 - bucket.left) / per_second));
  bucket.left -= 1;
  return Duration::zero();
}

}  // namespace pons::front
