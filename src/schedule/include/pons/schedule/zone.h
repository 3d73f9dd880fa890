#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "pons/base/result.h"

namespace pons::schedule {

// A stretch of time in which a zone's clocks are not changed: `begin` belongs to it, `end` does
// not.
struct Stretch {
  std::chrono::sys_seconds begin;
  std::chrono::sys_seconds end;
  std::chrono::seconds offset;  // what a wall clock is ahead of UTC

  std::chrono::local_seconds local(std::chrono::sys_seconds instant) const {
    return std::chrono::local_seconds(instant.time_since_epoch() + offset);
  }
};

struct PosixRules;

// When the clocks of a time zone are changed: what a TZif file says (RFC 8536). Time is as long as
// from kBegin to kEnd; the stretches of a zone cover it without a gap.
class Zone {
 public:
  static constexpr std::chrono::sys_days kBegin{std::chrono::year(-10000) / 1 / 1};
  static constexpr std::chrono::sys_days kEnd{std::chrono::year(20000) / 1 / 1};
  static constexpr std::chrono::seconds kOffsetMax = std::chrono::hours(26);

  // Hostile bytes. Version 2 or later, without leap seconds.
  static Result<Zone> parse(std::string_view bytes);

  Stretch stretch_at(std::chrono::sys_seconds instant) const;

 private:
  struct Change {
    std::chrono::sys_seconds at;
    std::chrono::seconds offset;  // from then on
  };
  std::chrono::seconds first_offset_{};  // before all changes
  std::vector<Change> changes_;          // in their order
  std::shared_ptr<const PosixRules>
      later_;  // after the last of them; null: nothing changes any more
};

}  // namespace pons::schedule
