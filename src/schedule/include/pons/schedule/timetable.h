#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "pons/schedule/cron.h"
#include "pons/schedule/zone.h"

namespace pons::schedule {

// When an expression comes in a time zone. It is compared with what a clock on a wall there shows,
// and where clocks are changed it is as users of cron know it:
//   - an expression that picks hours ("30 2 * * *") comes once a day for each time it names. A time
//     that is left out that day comes at the first moment after it, once for all that were left
//     out; one that is there twice comes the first time.
//   - an expression that takes every hour ("*/15 * * * *") goes on at its pace: nothing is made up
//     for, and the hour that is there twice counts twice.

// The first moment after `instant`; nothing when the calendar ends before (year 9999).
std::optional<std::chrono::sys_seconds> next_after(const Cron& cron, const Zone& zone,
                                                   std::chrono::sys_seconds instant);

// The next `count` of them.
std::vector<std::chrono::sys_seconds> upcoming(const Cron& cron, const Zone& zone,
                                               std::chrono::sys_seconds after, std::size_t count);

}  // namespace pons::schedule
