#include "time_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>

#include "pons/base/text.h"

namespace pons::e2b {

namespace {

// The digits that stand at `text`'s beginning, taken off it.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  const auto number = parse_decimal(text.substr(0, digits));
  text.remove_prefix(digits);
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

bool take(std::string_view& text, char lower_or_only, char upper) {
  if (text.empty() || (text.front() != lower_or_only && text.front() != upper)) return false;
  text.remove_prefix(1);
  return true;
}

// ".250": what is beyond milliseconds is let go.
std::optional<std::int64_t> take_fraction(std::string_view& text) {
  if (!take(text, '.', '.')) return 0;
  std::int64_t milliseconds = 0;
  std::size_t digits = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
    if (digits < 3) milliseconds = milliseconds * 10 + (text.front() - '0');
    ++digits;
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 3; ++digits) milliseconds *= 10;
  return milliseconds;
}

std::optional<std::int64_t> take_offset_minutes(std::string_view& text) {
  if (take(text, 'z', 'Z')) return 0;
  if (text.empty() || (text.front() != '+' && text.front() != '-')) return std::nullopt;
  const int sign = text.front() == '-' ? -1 : 1;
  text.remove_prefix(1);
  const auto hours = take_number(text, 2);
  if (!hours || *hours > 23 || !take(text, ':', ':')) return std::nullopt;
  const auto minutes = take_number(text, 2);
  if (!minutes || *minutes > 59) return std::nullopt;
  return sign * (*hours * 60 + *minutes);
}

}  // namespace

std::string rfc3339(std::int64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), unix_ms % 1000);
}

std::optional<std::int64_t> parse_rfc3339(std::string_view text) {
  using namespace std::chrono;
  const auto years = take_number(text, 4);
  if (!years || !take(text, '-', '-')) return std::nullopt;
  const auto months = take_number(text, 2);
  if (!months || !take(text, '-', '-')) return std::nullopt;
  const auto days_of_month = take_number(text, 2);
  if (!days_of_month || !take(text, 't', 'T')) return std::nullopt;
  const auto hour = take_number(text, 2);
  if (!hour || *hour > 23 || !take(text, ':', ':')) return std::nullopt;
  const auto minute = take_number(text, 2);
  if (!minute || *minute > 59 || !take(text, ':', ':')) return std::nullopt;
  const auto second = take_number(text, 2);
  if (!second || *second > 60) return std::nullopt;
  const auto fraction = take_fraction(text);
  const auto offset = fraction ? take_offset_minutes(text) : std::nullopt;
  const year_month_day date{year(*years), month(static_cast<unsigned>(*months)),
                            day(static_cast<unsigned>(*days_of_month))};
  if (!offset || !text.empty() || !date.ok()) return std::nullopt;
  const auto time = sys_days(date).time_since_epoch() + hours(*hour) + minutes(*minute) +
                    seconds(*second) - minutes(*offset);
  return duration_cast<milliseconds>(time).count() + *fraction;
}

}  // namespace pons::e2b
