#include "pons/schedule/timetable.h"

#include <algorithm>

namespace pons::schedule {

namespace {

using namespace std::chrono;

// No two offsets of a zone are further apart, so nothing that happened longer ago is seen again.
constexpr seconds kFarthestBack = 2 * Zone::kOffsetMax;

// The latest that clocks have shown until then. Before they were set back it was later than now.
local_seconds latest_shown(const Zone& zone, sys_seconds instant) {
  Stretch stretch = zone.stretch_at(instant);
  local_seconds latest = stretch.local(instant);
  while (stretch.begin > sys_seconds(Zone::kBegin) && stretch.begin + kFarthestBack > instant) {
    const Stretch before = zone.stretch_at(stretch.begin - seconds(1));
    latest = std::max(latest, before.local(before.end - seconds(1)));
    stretch = before;
  }
  return latest;
}

// The first moment at which clocks show `wall` or, where it is left out, what comes after it.
sys_seconds first_shown(const Zone& zone, local_seconds wall) {
  Stretch stretch = zone.stretch_at(sys_seconds(wall.time_since_epoch() - Zone::kOffsetMax));
  while (stretch.local(stretch.end) <= wall && stretch.end < sys_seconds(Zone::kEnd))
    stretch = zone.stretch_at(stretch.end);
  return std::max(stretch.begin, sys_seconds(wall.time_since_epoch() - stretch.offset));
}

std::optional<sys_seconds> next_at_even_pace(const Cron& cron, const Zone& zone,
                                             sys_seconds instant) {
  for (Stretch stretch = zone.stretch_at(instant);; stretch = zone.stretch_at(stretch.end)) {
    const sys_seconds from = std::max(instant, stretch.begin - seconds(1));
    const auto wall = cron.next_match(stretch.local(from));
    if (!wall) return std::nullopt;
    const sys_seconds found(wall->time_since_epoch() - stretch.offset);
    if (found < stretch.end) return found;
    if (stretch.end >= sys_seconds(Zone::kEnd)) return std::nullopt;
  }
}

}  // namespace

std::optional<sys_seconds> next_after(const Cron& cron, const Zone& zone, sys_seconds instant) {
  if (instant < sys_seconds(Zone::kBegin) + kFarthestBack || instant >= sys_seconds(Zone::kEnd))
    return std::nullopt;
  if (cron.runs_every_hour()) return next_at_even_pace(cron, zone, instant);
  // Time on a wall only ever comes for the first time once, so this is the one that is next.
  const auto wall = cron.next_match(latest_shown(zone, instant));
  if (!wall) return std::nullopt;
  return first_shown(zone, *wall);
}

std::vector<sys_seconds> upcoming(const Cron& cron, const Zone& zone, sys_seconds after,
                                  std::size_t count) {
  std::vector<sys_seconds> moments;
  while (moments.size() < count) {
    const auto next = next_after(cron, zone, after);
    if (!next) break;
    moments.push_back(*next);
    after = *next;
  }
  return moments;
}

}  // namespace pons::schedule
