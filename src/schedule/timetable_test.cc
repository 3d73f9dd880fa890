#include "pons/schedule/timetable.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "pons/schedule/zones.h"

namespace pons::schedule {
namespace {

using namespace std::chrono;

sys_seconds utc(int y, unsigned m, unsigned d, int hour = 0, int minute = 0, int second = 0) {
  return sys_days(year(y) / month(m) / day(d)) + hours(hour) + minutes(minute) + seconds(second);
}

std::string show(sys_seconds moment) {
  const auto today = floor<days>(moment);
  const year_month_day date(today);
  const hh_mm_ss time(moment - today);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count());
}

class Timetable : public testing::Test {
 protected:
  std::shared_ptr<const Zone> zone(std::string_view name) { return *zones_.load(name); }
  // The next ones, in UTC.
  std::vector<std::string> next(std::string_view text, std::string_view name, sys_seconds after,
                                std::size_t count) {
    std::vector<std::string> shown;
    for (const auto moment : upcoming(*Cron::parse(text), *zone(name), after, count))
      shown.push_back(show(moment));
    return shown;
  }
  using Moments = std::vector<std::string>;
  ManualClock clock_;
  Zones zones_{clock_};
};

TEST_F(Timetable, WallClocksOfAZoneCount) {
  EXPECT_EQ(next("0 9 * * 1-5", "Europe/Berlin", utc(2026, 11, 13, 8), 2),
            (Moments{"2026-11-16 08:00Z", "2026-11-17 08:00Z"}));
  EXPECT_EQ(next("30 0 1 1 *", "Asia/Kolkata", utc(2026, 12, 31), 1),
            (Moments{"2026-12-31 19:00Z"}));
  EXPECT_EQ(next("0 0 29 2 *", "America/New_York", utc(2026, 1, 1), 2),
            (Moments{"2028-02-29 05:00Z", "2032-02-29 05:00Z"}));
}

TEST_F(Timetable, ADailyTimeKeepsItsPlaceOnTheWallOverChanges) {
  EXPECT_EQ(next("0 9 * * *", "Europe/Berlin", utc(2026, 3, 28), 3),
            (Moments{"2026-03-28 08:00Z", "2026-03-29 07:00Z", "2026-03-30 07:00Z"}));
  EXPECT_EQ(next("0 9 * * *", "America/New_York", utc(2026, 10, 31), 3),
            (Moments{"2026-10-31 13:00Z", "2026-11-01 14:00Z", "2026-11-02 14:00Z"}));
}

TEST_F(Timetable, ATimeThatIsLeftOutComesRightAfterTheGap) {
  // Berlin: 02:00 becomes 03:00 at 01:00Z.
  EXPECT_EQ(next("30 2 * * *", "Europe/Berlin", utc(2026, 3, 28, 12), 2),
            (Moments{"2026-03-29 01:00Z", "2026-03-30 00:30Z"}));
  // New York: 02:00 becomes 03:00 at 07:00Z.
  EXPECT_EQ(next("15 2 * * *", "America/New_York", utc(2026, 3, 7, 12), 2),
            (Moments{"2026-03-08 07:00Z", "2026-03-09 06:15Z"}));
  // Lord Howe: 02:00 becomes 02:30 at 15:30Z the day before.
  EXPECT_EQ(next("10 2 * * *", "Australia/Lord_Howe", utc(2026, 10, 3), 2),
            (Moments{"2026-10-03 15:30Z", "2026-10-04 15:10Z"}));
  // Beirut: midnight does not exist.
  EXPECT_EQ(next("0 0 * * *", "Asia/Beirut", utc(2026, 3, 28), 1), (Moments{"2026-03-28 22:00Z"}));
}

TEST_F(Timetable, ManyTimesThatAreLeftOutComeOnce) {
  EXPECT_EQ(next("*/10 2,3 * * *", "Europe/Berlin", utc(2026, 3, 29), 2),
            (Moments{"2026-03-29 01:00Z", "2026-03-29 01:10Z"}));
  EXPECT_EQ(next("*/10 2 * * *", "Europe/Berlin", utc(2026, 3, 29), 2),
            (Moments{"2026-03-29 01:00Z", "2026-03-30 00:00Z"}));
}

TEST_F(Timetable, ATimeThatIsThereTwiceComesTheFirstTime) {
  // Berlin: 03:00 becomes 02:00 at 01:00Z.
  EXPECT_EQ(next("30 2 * * *", "Europe/Berlin", utc(2026, 10, 24, 12), 2),
            (Moments{"2026-10-25 00:30Z", "2026-10-26 01:30Z"}));
  // Between the two it is not next again.
  EXPECT_EQ(next("30 2 * * *", "Europe/Berlin", utc(2026, 10, 25, 0, 45), 1),
            (Moments{"2026-10-26 01:30Z"}));
  EXPECT_EQ(next("30 2 * * *", "Europe/Berlin", utc(2026, 10, 25, 1, 10), 1),
            (Moments{"2026-10-26 01:30Z"}));
  EXPECT_EQ(next("*/30 1-2 * * *", "America/New_York", utc(2026, 11, 1, 5), 4),
            (Moments{"2026-11-01 05:30Z", "2026-11-01 07:00Z", "2026-11-01 07:30Z",
                     "2026-11-02 06:00Z"}));
  // The clocks of Lord Howe go back by half an hour.
  EXPECT_EQ(next("45 1 * * *", "Australia/Lord_Howe", utc(2026, 4, 4), 2),
            (Moments{"2026-04-04 14:45Z", "2026-04-05 15:15Z"}));
}

TEST_F(Timetable, WhatTakesEveryHourGoesOnAtItsPace) {
  EXPECT_EQ(next("*/30 * * * *", "America/New_York", utc(2026, 11, 1, 5), 5),
            (Moments{"2026-11-01 05:30Z", "2026-11-01 06:00Z", "2026-11-01 06:30Z",
                     "2026-11-01 07:00Z", "2026-11-01 07:30Z"}));
  EXPECT_EQ(next("15 * * * *", "Europe/Berlin", utc(2026, 3, 29, 0), 3),
            (Moments{"2026-03-29 00:15Z", "2026-03-29 01:15Z", "2026-03-29 02:15Z"}));
  EXPECT_EQ(next("15 0-23 * * *", "Europe/Berlin", utc(2026, 10, 25, 0), 3),
            (Moments{"2026-10-25 00:15Z", "2026-10-25 01:15Z", "2026-10-25 02:15Z"}));
}

TEST_F(Timetable, ADayThatIsLeftOutComesAtItsEnd) {
  // Samoa went over the date line: 30 December 2011 was not there.
  EXPECT_EQ(next("0 9 * * *", "Pacific/Apia", utc(2011, 12, 29, 20), 2),
            (Moments{"2011-12-30 10:00Z", "2011-12-30 19:00Z"}));
}

// What is next is later, and there is nothing between: whatever the zone, the time and the
// expression.
TEST_F(Timetable, NothingIsBetweenTwoThatFollow) {
  for (const char* name : {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
                           "Africa/Casablanca", "America/St_Johns", "Asia/Gaza", "UTC"}) {
    for (const char* text : {"30 2 * * *", "0 */6 * * *", "*/7 * * * *", "5,50 0-3 * * 0,6",
                             "0 0 1 * *", "59 23 * * *"}) {
      const auto cron = *Cron::parse(text);
      const auto moments = upcoming(cron, *zone(name), utc(2026, 1, 1), 500);
      ASSERT_EQ(moments.size(), 500U);
      for (std::size_t i = 1; i < moments.size(); ++i) {
        ASSERT_LT(moments[i - 1], moments[i]);
        const auto middle = moments[i - 1] + (moments[i] - moments[i - 1]) / 2;
        ASSERT_EQ(next_after(cron, *zone(name), middle), moments[i]) << name << ' ' << text;
        ASSERT_EQ(next_after(cron, *zone(name), moments[i] - seconds(1)), moments[i]);
      }
    }
  }
}

TEST_F(Timetable, TheCalendarEnds) {
  EXPECT_EQ(next_after(*Cron::parse("0 0 * * *"), *zone("UTC"), sys_seconds::max()), std::nullopt);
  EXPECT_EQ(next_after(*Cron::parse("0 0 * * *"), *zone("UTC"), sys_seconds::min()), std::nullopt);
  EXPECT_EQ(next_after(*Cron::parse("* * * * *"), *zone("UTC"), utc(9999, 12, 31, 12)),
            std::nullopt);
}

}  // namespace
}  // namespace pons::schedule
