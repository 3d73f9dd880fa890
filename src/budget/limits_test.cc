#include "pons/budget/limits.h"

#include <gmock/gmock.h>

#include <chrono>
#include <limits>

namespace pons::budget {
namespace {

using namespace std::chrono_literals;
using std::chrono::sys_days;

std::int64_t at(std::chrono::year_month_day day, std::chrono::milliseconds time = {}) {
  return (std::chrono::milliseconds(sys_days(day).time_since_epoch()) + time).count();
}

TEST(Windows, BeginAndEndWithTheCalendarInUtc) {
  const std::int64_t moment = at(2028y / 2 / 29, 13h + 14min + 15s + 16ms);  // a Tuesday
  EXPECT_EQ(window_start(Window::kMinute, moment), at(2028y / 2 / 29, 13h + 14min));
  EXPECT_EQ(window_end(Window::kMinute, moment), at(2028y / 2 / 29, 13h + 15min));
  EXPECT_EQ(window_start(Window::kHour, moment), at(2028y / 2 / 29, 13h));
  EXPECT_EQ(window_end(Window::kHour, moment), at(2028y / 2 / 29, 14h));
  EXPECT_EQ(window_start(Window::kDay, moment), at(2028y / 2 / 29));
  EXPECT_EQ(window_end(Window::kDay, moment), at(2028y / 3 / 1));
  EXPECT_EQ(window_start(Window::kWeek, moment), at(2028y / 2 / 28));
  EXPECT_EQ(window_end(Window::kWeek, moment), at(2028y / 3 / 6));
  EXPECT_EQ(window_start(Window::kMonth, moment), at(2028y / 2 / 1));
  EXPECT_EQ(window_end(Window::kMonth, moment), at(2028y / 3 / 1));
  EXPECT_EQ(window_start(Window::kTotal, moment), 0);
  EXPECT_EQ(window_end(Window::kTotal, moment), std::nullopt);
}

TEST(Windows, TheEndOfOneIsTheStartOfTheNext) {
  for (std::int64_t now = 0; now < at(1972y / 1 / 1); now += 7'654'321)
    for (std::size_t i = 0; i + 1 < kWindows; ++i) {
      const auto window = static_cast<Window>(i);
      const auto end = window_end(window, now);
      ASSERT_TRUE(end);
      ASSERT_LE(window_start(window, now), now);
      ASSERT_GT(*end, now);
      ASSERT_EQ(window_start(window, *end), *end);
      ASSERT_EQ(window_start(window, *end - 1), window_start(window, now));
    }
}

TEST(Windows, AClockBefore1970IsIn1970) {
  EXPECT_EQ(window_start(Window::kWeek, -5), 0);
  EXPECT_EQ(window_start(Window::kMonth, std::numeric_limits<std::int64_t>::min()), 0);
}

TEST(Amounts, StopAtTheLargestNumber) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  Amounts sum{.of = {kMost, 1, -kMost, 0}};
  sum += Amounts{.of = {1, 1, -5, 0}};
  EXPECT_EQ(sum.of, (std::array<std::int64_t, kWhats>{
                        kMost, 2, std::numeric_limits<std::int64_t>::min(), 0}));
}

TEST(Limits, AreReadAsTheyWereWritten) {
  const std::vector<Limit> limits = {
      {.what = What::kMoney, .amount = 5'000'000'000, .window = Window::kDay},
      {.what = What::kRequests, .amount = 0, .window = Window::kMinute},
      {.what = What::kSandboxSeconds, .amount = 3600, .window = Window::kTotal}};
  const auto read = parse_limits(limits_text(limits));
  ASSERT_TRUE(read) << read.error().describe();
  EXPECT_EQ(*read, limits);
}

TEST(Limits, ThatCannotBeMeantAreRefused) {
  for (const char* text : {"", "{}", "[1]", R"([{"what": "money", "amount": 1}])",
                           R"([{"what": "money", "amount": -1, "window": "day"}])",
                           R"([{"what": "money", "amount": 1.5, "window": "day"}])",
                           R"([{"what": "money", "amount": "1", "window": "day"}])",
                           R"([{"what": "money", "amount": 9223372036854775808, "window": "day"}])",
                           R"([{"what": "love", "amount": 1, "window": "day"}])",
                           R"([{"what": "money", "amount": 1, "window": "year"}])",
                           R"([{"what": "money", "amount": 1, "window": "day", "soft": 1}])",
                           R"([{"what": "money", "amount": 1, "window": "day"},
            {"what": "money", "amount": 2, "window": "day"}])"}) {
    const auto read = parse_limits(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalid);
  }
}

}  // namespace
}  // namespace pons::budget
