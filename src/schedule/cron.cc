#include "pons/schedule/cron.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "cron_field.h"
#include "pons/base/text.h"

namespace pons::schedule {

namespace {

using namespace std::chrono;

constexpr std::size_t kFields = 5;
constexpr year kLastYear{9999};

Error refuse(std::string message) {
  return make_error(ErrorCode::kInvalid, "read cron expression", std::move(message));
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return words;
    const std::size_t end = std::min(text.find_first_of(" \t", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c == '\t' || (c >= ' ' && c <= '~'); });
}

// How many days a month has at most.
unsigned longest(unsigned number) {
  constexpr year kLeapYear{2000};
  return static_cast<unsigned>((kLeapYear / month{number} / last).day());
}

template <std::size_t size>
std::optional<std::size_t> next_bit(const std::bitset<size>& bits, std::size_t from) {
  for (std::size_t i = from; i < size; ++i)
    if (bits.test(i)) return i;
  return std::nullopt;
}

}  // namespace

Result<Cron> Cron::parse(std::string_view text) {
  if (text.size() > kBytesMax) return refuse(fmt::format("it is longer than {} bytes", kBytesMax));
  if (!is_printable(text)) return refuse("it holds something else than visible ASCII characters");
  const auto words = words_of(text);
  if (!words.empty() && words.front().starts_with('@'))
    return refuse(
        fmt::format("minute \"{}\": names of schedules are not taken; write five fields, "
                    "\"0 0 * * *\" is every day at midnight",
                    words.front()));
  if (words.size() != kFields)
    return refuse(
        fmt::format("it has {} fields and not five: minute, hour, day of month, month, "
                    "day of week (there are no seconds and no years)",
                    words.size()));
  std::array<Field, kFields> fields;
  for (std::size_t i = 0; i < kFields; ++i)
    fields[i] = TRY(parse_field(field_kinds()[i], words[i]));
  Cron cron;
  cron.text_ = text;
  cron.minutes_ = fields[0].values;
  cron.hours_ = fields[1].values;
  cron.days_ = fields[2].values;
  cron.months_ = fields[3].values;
  cron.weekdays_ = fields[4].values;
  cron.either_day_ = !fields[2].is_star && !fields[4].is_star;
  if (!cron.ever_comes())
    return refuse(
        fmt::format("day of month \"{}\": no month of \"{}\" has such a day, it would never run",
                    words[2], words[3]));
  return cron;
}

// Every date of the calendar, also 29 February, falls on each day of the week within 40 years.
bool Cron::ever_comes() const {
  if (either_day_) return true;
  for (unsigned number = 1; number <= 12; ++number)
    for (unsigned day = 1; months_.test(number) && day <= longest(number); ++day)
      if (days_.test(day)) return true;
  return false;
}

bool Cron::matches(local_days day) const {
  const year_month_day date(day);
  if (!months_.test(static_cast<unsigned>(date.month()))) return false;
  const bool by_date = days_.test(static_cast<unsigned>(date.day()));
  const bool by_weekday = weekdays_.test(weekday(day).c_encoding());
  return either_day_ ? by_date || by_weekday : by_date && by_weekday;
}

std::optional<local_days> Cron::next_day(local_days from) const {
  const local_days end(kLastYear / December / last);
  while (from <= end) {
    if (matches(from)) return from;
    const year_month_day date(from);
    if (months_.test(static_cast<unsigned>(date.month())))
      from += days(1);
    else
      from = local_days((date.year() / date.month() / 1) + months(1));
  }
  return std::nullopt;
}

// Of a day that matches.
std::optional<minutes> Cron::next_minute(minutes from) const {
  constexpr std::size_t kMinutes = 60;
  const auto begin = static_cast<std::size_t>(from.count());
  auto hour = next_bit(hours_, begin / kMinutes);
  if (!hour) return std::nullopt;
  auto minute = next_bit(minutes_, *hour == begin / kMinutes ? begin % kMinutes : 0);
  if (!minute) {
    hour = next_bit(hours_, *hour + 1);
    minute = next_bit(minutes_, 0);
  }
  if (!hour || !minute) return std::nullopt;
  return minutes(*hour * kMinutes + *minute);
}

std::optional<local_seconds> Cron::next_match(local_seconds after) const {
  if (after < local_days(year(1) / January / 1)) after = local_days(year(1) / January / 1);
  if (after >= local_days(kLastYear / December / last)) return std::nullopt;
  const auto begin = floor<minutes>(after) + minutes(1);
  const local_days today = floor<days>(begin);
  if (matches(today))
    if (const auto minute = next_minute(begin - today)) return today + *minute;
  const auto day = next_day(today + days(1));
  if (!day) return std::nullopt;
  return *day + *next_minute(minutes(0));
}

}  // namespace pons::schedule
