// A TZif file. Holds: its stretches cover time without a gap and each knows its own; what comes
// next by it is later.

#include <cstdint>
#include <string_view>

#include "pons/base/check.h"
#include "pons/schedule/timetable.h"

using namespace pons::schedule;
using namespace std::chrono;

namespace {

void check_stretches(const Zone& zone, sys_seconds from) {
  constexpr int kStretches = 40;
  Stretch stretch = zone.stretch_at(from);
  for (int i = 0; i < kStretches && stretch.end < sys_seconds(Zone::kEnd); ++i) {
    CHECK(stretch.begin < stretch.end && abs(stretch.offset) <= Zone::kOffsetMax);
    CHECK(zone.stretch_at(stretch.begin).end == stretch.end);
    CHECK(zone.stretch_at(stretch.end - seconds(1)).begin == stretch.begin);
    const Stretch next = zone.stretch_at(stretch.end);
    CHECK(next.begin == stretch.end);
    stretch = next;
  }
}

void check_next(const Zone& zone, const char* text) {
  const auto cron = *Cron::parse(text);
  sys_seconds before = sys_days(2026y / 1 / 1);
  for (const sys_seconds moment : upcoming(cron, zone, before, 20)) {
    CHECK(moment > before);
    before = moment;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto zone = Zone::parse({reinterpret_cast<const char*>(data), size});
  if (!zone) {
    CHECK(!zone.error().message.empty());
    return 0;
  }
  check_stretches(*zone, sys_seconds::min());
  check_stretches(*zone, sys_days(2026y / 1 / 1));
  check_stretches(*zone, sys_days(19'990y / 1 / 1));
  check_next(*zone, "30 2 * * *");
  check_next(*zone, "*/15 * * * *");
  return 0;
}
