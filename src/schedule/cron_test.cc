#include "pons/schedule/cron.h"

#include <ctime>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace pons::schedule {
namespace {

using namespace std::chrono;

local_seconds at(int y, unsigned m, unsigned d, int hour = 0, int minute = 0, int second = 0) {
  return local_days(year(y) / month(m) / day(d)) + hours(hour) + minutes(minute) + seconds(second);
}

Cron cron(std::string_view text) {
  auto parsed = Cron::parse(text);
  if (!parsed) ADD_FAILURE() << text << ": " << parsed.error().describe();
  return *parsed;
}

std::string refusal(std::string_view text) {
  const auto parsed = Cron::parse(text);
  return parsed ? "it was taken" : parsed.error().message;
}

// "2026-11-15 09:00", of the minutes that follow.
std::string show(std::optional<local_seconds> moment) {
  if (!moment) return "never";
  const auto today = floor<days>(*moment);
  const year_month_day date(today);
  const hh_mm_ss time(*moment - today);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count());
}
std::string next(std::string_view text, local_seconds after) {
  return show(cron(text).next_match(after));
}

TEST(Cron, TheNextMinuteIsBehindTheOneThatIsGiven) {
  EXPECT_EQ(next("* * * * *", at(2026, 11, 15, 9, 0)), "2026-11-15 09:01");
  EXPECT_EQ(next("* * * * *", at(2026, 11, 15, 9, 0, 59)), "2026-11-15 09:01");
  EXPECT_EQ(next("0 9 * * *", at(2026, 11, 15, 8, 59, 59)), "2026-11-15 09:00");
  EXPECT_EQ(next("0 9 * * *", at(2026, 11, 15, 9, 0)), "2026-11-16 09:00");
}

TEST(Cron, StepsListsAndRangesNameMinutes) {
  EXPECT_EQ(next("*/20 * * * *", at(2026, 1, 1, 0, 40)), "2026-01-01 01:00");
  EXPECT_EQ(next("10-30/10 * * * *", at(2026, 1, 1, 0, 20)), "2026-01-01 00:30");
  EXPECT_EQ(next("10-30/10 * * * *", at(2026, 1, 1, 0, 30)), "2026-01-01 01:10");
  EXPECT_EQ(next("5,1-3,*/50 6 * * *", at(2026, 1, 1, 6, 3)), "2026-01-01 06:05");
  EXPECT_EQ(next("5,1-3,*/50 6 * * *", at(2026, 1, 1, 6, 5)), "2026-01-01 06:50");
  EXPECT_EQ(next("59 23 31 12 *", at(2026, 12, 31, 23, 59)), "2027-12-31 23:59");
}

TEST(Cron, NamesStandForMonthsAndDaysInAnyCase) {
  EXPECT_EQ(next("0 0 1 jan *", at(2026, 6, 1)), "2027-01-01 00:00");
  EXPECT_EQ(next("0 0 1 JUL,Dec *", at(2026, 8, 1)), "2026-12-01 00:00");
  EXPECT_EQ(next("0 0 1 apr-JUL *", at(2026, 8, 1)), "2027-04-01 00:00");
  EXPECT_EQ(next("0 0 * * Mon", at(2026, 11, 15)), "2026-11-16 00:00");
}

TEST(Cron, SundayIsBothZeroAndSeven) {
  const auto saturday = at(2026, 11, 14);
  for (const char* sunday : {"0", "7", "sun", "7,0"})
    EXPECT_EQ(next(fmt::format("0 0 * * {}", sunday), saturday), "2026-11-15 00:00") << sunday;
  EXPECT_EQ(next("0 0 * * 5-7", saturday), "2026-11-15 00:00");
  EXPECT_EQ(next("0 0 * * fri-sun", saturday), "2026-11-15 00:00");
  EXPECT_EQ(next("0 0 * * sun-tue", at(2026, 11, 17)), "2026-11-22 00:00");
  EXPECT_EQ(next("0 0 * * */2", at(2026, 11, 15)), "2026-11-17 00:00");
}

TEST(Cron, WhenBothDaysArePickedOneIsEnough) {
  // Friday the 13th or any Friday or any 13th.
  EXPECT_EQ(next("0 0 13 * 5", at(2026, 11, 7)), "2026-11-13 00:00");
  EXPECT_EQ(next("0 0 13 * 5", at(2026, 11, 13)), "2026-11-20 00:00");
  EXPECT_EQ(next("0 0 13 * 5", at(2026, 12, 11)), "2026-12-13 00:00");
  // A field that begins with a star does not pick.
  EXPECT_EQ(next("0 0 */2 * 1", at(2026, 11, 15)), "2026-11-23 00:00");
  EXPECT_EQ(next("0 0 13 * *", at(2026, 11, 13)), "2026-12-13 00:00");
  EXPECT_EQ(next("0 0 * * 5", at(2026, 11, 13)), "2026-11-20 00:00");
}

TEST(Cron, TheLeapDayIsWaitedFor) {
  EXPECT_EQ(next("0 12 29 2 *", at(2025, 3, 1)), "2028-02-29 12:00");
  EXPECT_EQ(next("0 12 29 2 *", at(2096, 3, 1)), "2104-02-29 12:00");
  EXPECT_EQ(next("0 12 29 2 */7", at(2032, 3, 1)), "2060-02-29 12:00");  // on a Sunday
  EXPECT_EQ(next("0 0 31 * *", at(2026, 1, 31)), "2026-03-31 00:00");
}

TEST(Cron, YearsEnd) {
  EXPECT_EQ(next("*/30 * * * *", at(2026, 12, 31, 23, 30)), "2027-01-01 00:00");
  EXPECT_EQ(next("* * * * *", at(9999, 12, 31, 12, 0)), "never");
}

TEST(Cron, WhatCanNeverComeIsRefused) {
  for (const char* text : {"0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 feb */2"})
    EXPECT_NE(refusal(text).find("it would never run"), std::string::npos) << refusal(text);
  EXPECT_EQ(next("0 0 31 2 1", at(2026, 2, 1)), "2026-02-02 00:00");  // Mondays
}

TEST(Cron, RefusalsNameTheFieldAndTheReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"60 * * * *", "minute \"60\": values go from 0 to 59"},
      {"* 24 * * *", "hour \"24\": values go from 0 to 23"},
      {"* * 0 * *", "day of month \"0\": values go from 1 to 31"},
      {"* * * 13 *", "month \"13\": values go from 1 to 12"},
      {"* * * * 8", "day of week \"8\": values go from 0 to 7"},
      {"* * L * *", "day of month \"L\": L (the last day) is not taken"},
      {"* * * * 5L", "day of week \"5L\": L (the last day) is not taken"},
      {"* * 15W * *", "day of month \"15W\": W (the weekday nearest to a day) is not taken"},
      {"* * LW * *", "day of month \"LW\": W (the weekday nearest to a day) is not taken"},
      {"* * * * 1#2", "day of week \"1#2\": # (the n-th weekday of a month) is not taken"},
      {"* * ? * *", "day of month \"?\": ? is not taken; write *"},
      {"5/15 * * * *", "minute \"5/15\": a step needs a range: 5-59/…"},
      {"*/0 * * * *", "minute \"0\": a step is a number from 1 to 60"},
      {"*/90 * * * *", "minute \"90\": a step is a number from 1 to 60"},
      {"30-10 * * * *", "minute \"30-10\": the range goes backwards; write two, with a comma"},
      {"1,,2 * * * *", "minute \"\": a value of the list is missing"},
      {"1- * * * *", "minute \"\": a value is missing"},
      {"-1 * * * *", "minute \"\": a value is missing"},
      {"+1 * * * *", "minute \"+1\": this is no number"},
      {"* * * monday *", "month \"monday\": this is no number and no name of three letters"},
      {"* jan * * *", "hour \"jan\": this is no number"},
      {"**/2 * * * *", "minute \"**\": this is no number"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(refusal(text), message) << text;
}

TEST(Cron, OnlyFiveFieldsAreAnExpression) {
  EXPECT_NE(refusal("@daily").find("names of schedules are not taken"), std::string::npos);
  EXPECT_NE(refusal("@every 5m * * *").find("names of schedules"), std::string::npos);
  EXPECT_NE(refusal("").find("it has 0 fields"), std::string::npos);
  EXPECT_NE(refusal("0 0 * * * *").find("it has 6 fields and not five"), std::string::npos);
  EXPECT_NE(refusal("0 0 * *").find("it has 4 fields"), std::string::npos);
  EXPECT_EQ(cron(" 0\t9  * * 1-5 ").text(), " 0\t9  * * 1-5 ");
}

TEST(Cron, HostileTextIsRefusedInShort) {
  EXPECT_LT(refusal(std::string(1 << 20, '*')).size(), 200U);
  EXPECT_NE(refusal("0 0 * * 1\n").find("visible ASCII"), std::string::npos);
  EXPECT_NE(refusal(std::string("0 0 * * \0", 9)).find("visible ASCII"), std::string::npos);
  EXPECT_NE(refusal("99999999999999999999999 * * * *").find("no number"), std::string::npos);
  EXPECT_NE(refusal("0 0 * * 1\xff").find("visible ASCII"), std::string::npos);
}

// Another reading of the same rules, minute for minute.
TEST(Cron, EveryMinuteOfAYearIsAsTheRulesSay) {
  const auto begin = at(2027, 12, 1), end = at(2028, 4, 1);
  const auto expression = cron("7,*/25 3-5,23 28-31 * 3");
  auto found = expression.next_match(begin - seconds(1));
  int count = 0;
  for (auto now = begin; now < end; now += minutes(1)) {
    const auto today = floor<days>(now);
    const auto d = static_cast<unsigned>(year_month_day(today).day());
    const hh_mm_ss time(now - today);
    const auto m = time.minutes().count(), h = time.hours().count();
    const bool wanted = (m == 7 || m % 25 == 0) && ((h >= 3 && h <= 5) || h == 23) &&
                        (d >= 28 || weekday(today) == Wednesday);
    if (!wanted) continue;
    ++count;
    ASSERT_EQ(show(found), show(now));
    found = expression.next_match(now);
  }
  EXPECT_GT(count, 400);
}

}  // namespace
}  // namespace pons::schedule
