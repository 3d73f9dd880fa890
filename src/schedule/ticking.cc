#include "ticking.h"

#include <algorithm>

#include "pons/base/text.h"

namespace pons::schedule {

namespace {

using namespace std::chrono;

constexpr seconds kSpreadMax(30);
constexpr int kSpreadPart = 10;  // of the time until the next one
constexpr std::int64_t kCountedMax = 1'000;

// Small, and the same each time: the pace of a schedule stays even.
seconds spread_of(std::string_view deployment, seconds most) {
  constexpr std::size_t kDigits = 8;
  const auto number = parse_hex(std::string_view(sha256_hex(deployment)).substr(0, kDigits));
  return seconds(*number % static_cast<std::uint64_t>(most.count() + 1));
}

// The last tick before `limit`, which has one behind `first` or at it.
sys_seconds last_before(const Ticking& ticking, sys_seconds limit, sys_seconds first) {
  sys_seconds from = first;
  for (const seconds back : {seconds(hours(1)), seconds(days(1)), seconds(days(40))}) {
    const auto found = next_after(ticking.cron, *ticking.zone, std::max(first, limit - back));
    if (!found || *found >= limit) continue;
    from = *found;
    break;
  }
  for (;;) {
    const auto next = next_after(ticking.cron, *ticking.zone, from);
    if (!next || *next >= limit) return from;
    from = *next;
  }
}

}  // namespace

Result<Ticking> Ticking::read(const Schedule& schedule, Zones& zones) {
  auto cron = TRY(Cron::parse(schedule.expression));
  auto zone = TRY(zones.load(schedule.timezone));
  return Ticking{.cron = std::move(cron),
                 .zone = std::move(zone),
                 .missed = schedule.missed,
                 .late = seconds(schedule.late_seconds)};
}

std::optional<Tick> next_tick(const Ticking& ticking, std::string_view deployment,
                              sys_seconds instant) {
  const auto two = upcoming(ticking.cron, *ticking.zone, instant, 2);
  if (two.empty()) return std::nullopt;
  const seconds most =
      two.size() == 1 ? kSpreadMax : std::min(kSpreadMax, (two[1] - two[0]) / kSpreadPart);
  return Tick{.at = two[0], .due = two[0] + spread_of(deployment, most)};
}

Reckoning reckon(const Ticking& ticking, sys_seconds tick, sys_seconds now) {
  const sys_seconds limit = now - kOnTime;  // what comes before was missed
  if (tick >= limit) return {.run = tick, .after = tick};
  Reckoning result{.first_missed = tick, .missed = 1};
  result.last_missed = result.after = last_before(ticking, limit, tick);
  for (auto at = tick; at < result.last_missed && result.missed < kCountedMax; ++result.missed)
    at = *next_after(ticking.cron, *ticking.zone, at);
  const auto next = next_after(ticking.cron, *ticking.zone, result.after);
  // One that comes in time makes up for those before it.
  const bool another_is_due = next && *next <= now;
  if (ticking.missed == Missed::kRunOnce && now - result.last_missed <= ticking.late &&
      !another_is_due) {
    result.run = result.last_missed;
    result.missed -= 1;
  }
  return result;
}

}  // namespace pons::schedule
