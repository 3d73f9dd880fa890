#pragma once

#include <optional>
#include <string_view>

#include "pons/schedule/deployment.h"
#include "pons/schedule/timetable.h"
#include "pons/schedule/zones.h"

// When a schedule comes, without a store: all of it is arithmetic.

namespace pons::schedule {

// Found later than this behind its time, a tick was missed. A process that is started anew is back
// sooner.
inline constexpr std::chrono::seconds kOnTime = std::chrono::minutes(3);

// A schedule that was read.
struct Ticking {
  Cron cron;
  std::shared_ptr<const Zone> zone;
  Missed missed;
  std::chrono::seconds late;

  static Result<Ticking> read(const Schedule& schedule, Zones& zones);
};

struct Tick {
  std::chrono::sys_seconds at;   // what is listed
  std::chrono::sys_seconds due;  // when it is started
};

// The first one after `instant`. What is due at the same time for many deployments is spread over
// some seconds, always the same way for each of them.
std::optional<Tick> next_tick(const Ticking& ticking, std::string_view deployment,
                              std::chrono::sys_seconds instant);

// What is to be done about a tick whose time has come.
struct Reckoning {
  std::optional<std::chrono::sys_seconds> run = std::nullopt;  // the one to start, if any
  std::chrono::sys_seconds after = {};  // whatever comes next comes behind this one
  std::chrono::sys_seconds first_missed = {};
  std::chrono::sys_seconds last_missed = {};
  std::int64_t missed = 0;  // how many are neither run nor to come; at least so many past 1000
};
Reckoning reckon(const Ticking& ticking, std::chrono::sys_seconds tick,
                 std::chrono::sys_seconds now);

}  // namespace pons::schedule
