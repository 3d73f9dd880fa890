#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "pons/base/result.h"

namespace pons::schedule {

// A day of each year and a time on it: "M3.5.0/2", "J60", "59".
struct YearlyMoment {
  enum class Kind : std::uint8_t {
    kWeekday,      // the n-th of a weekday in a month, the last one for n = 5
    kDayNotLeap,   // 1 to 365: 29 February is never counted
    kDayWithLeap,  // 0 to 365
  } kind = Kind::kWeekday;
  unsigned month = 1;
  unsigned week = 1;
  unsigned day = 0;
  std::chrono::seconds time = std::chrono::hours(2);  // may lie before or after the day

  std::chrono::local_seconds in(std::chrono::year year) const;
};

// What the footer of a TZif file says of all time to come: "CET-1CEST,M3.5.0,M10.5.0/3".
struct PosixRules {
  std::chrono::seconds standard;  // ahead of UTC
  struct Summer {
    std::chrono::seconds offset;
    YearlyMoment begin;  // by clocks that show standard time
    YearlyMoment end;    // by clocks that show summer time
  };
  std::optional<Summer> summer = std::nullopt;

  struct Change {
    std::chrono::sys_seconds at;
    std::chrono::seconds offset;
  };
  // The changes of these years, in their order.
  std::vector<Change> changes(std::chrono::year from, std::chrono::year to) const;
};

Result<PosixRules> parse_posix_rules(std::string_view text);

}  // namespace pons::schedule
