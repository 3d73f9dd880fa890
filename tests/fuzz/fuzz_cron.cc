// A cron expression. Holds: a refusal says why; what is taken reads the same again, and in a zone
// whose clocks are changed what is next is always later, with nothing between.

#include <chrono>
#include <cstdint>
#include <string_view>

#include "pons/base/check.h"
#include "pons/base/clock.h"
#include "pons/schedule/timetable.h"
#include "pons/schedule/zones.h"

using namespace pons;
using namespace pons::schedule;
using namespace std::chrono;

namespace {

void check_order(const Cron& cron, const Zone& zone, sys_seconds from) {
  constexpr std::size_t kCount = 8;
  const auto moments = upcoming(cron, zone, from, kCount);
  CHECK(moments.size() == kCount);
  sys_seconds before = from;
  for (const sys_seconds moment : moments) {
    CHECK(moment > before);
    CHECK(next_after(cron, zone, before + (moment - before) / 2) == moment);
    before = moment;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ManualClock clock;
  static Zones zones(clock);
  static const auto berlin = *zones.load("Europe/Berlin");
  static const auto lord_howe = *zones.load("Australia/Lord_Howe");
  const auto cron = Cron::parse({reinterpret_cast<const char*>(data), size});
  if (!cron) {
    CHECK(!cron.error().message.empty() && cron.error().message.size() < 1'000);
    return 0;
  }
  const auto again = Cron::parse(cron->text());
  CHECK(again && again->text() == cron->text());
  check_order(*cron, *berlin, sys_days(2026y / 3 / 28));
  check_order(*cron, *berlin, sys_days(2026y / 10 / 24));
  check_order(*cron, *lord_howe, sys_days(2026y / 4 / 4));
  return 0;
}
