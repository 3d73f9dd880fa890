#include "posix_rules.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/schedule/zone.h"

namespace pons::schedule {

namespace {

using namespace std::chrono;

// Reads a footer from its beginning on; `text` is what is left.
struct Reader {
  std::string_view text;

  bool take(char wanted) {
    if (!text.starts_with(wanted)) return false;
    text.remove_prefix(1);
    return true;
  }

  std::optional<unsigned> number(unsigned high) {
    constexpr std::size_t kDigitsMax = 3;
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
    if (digits > kDigitsMax) return std::nullopt;
    const auto value = parse_decimal(text.substr(0, digits));
    if (!value || *value > high) return std::nullopt;
    text.remove_prefix(digits);
    return static_cast<unsigned>(*value);
  }

  // "<+0330>" or three letters and more.
  bool name() {
    if (take('<')) {
      const std::size_t end = text.find('>');
      if (end == std::string_view::npos) return false;
      text.remove_prefix(end + 1);
      return true;
    }
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    const auto end = std::ranges::find_if_not(text, is_letter);
    const auto letters = static_cast<std::size_t>(end - text.begin());
    text.remove_prefix(letters);
    return letters >= 3;
  }

  // [+-]h[h[h]][:mm[:ss]]
  std::optional<seconds> time(unsigned hours_max) {
    const bool negative = take('-');
    if (!negative) take('+');
    const auto hour = number(hours_max);
    if (!hour) return std::nullopt;
    seconds value = hours(*hour);
    if (take(':')) {
      const auto minute = number(59);
      if (!minute) return std::nullopt;
      value += minutes(*minute);
      if (take(':')) {
        const auto second = number(59);
        if (!second) return std::nullopt;
        value += seconds(*second);
      }
    }
    return negative ? -value : value;
  }

  std::optional<YearlyMoment> day() {
    using enum YearlyMoment::Kind;
    if (take('J')) {
      const auto day = number(365);
      if (!day || *day == 0) return std::nullopt;
      return YearlyMoment{.kind = kDayNotLeap, .day = *day};
    }
    if (!take('M')) {
      const auto day = number(365);
      if (!day) return std::nullopt;
      return YearlyMoment{.kind = kDayWithLeap, .day = *day};
    }
    const auto month = number(12);
    if (!month || *month == 0 || !take('.')) return std::nullopt;
    const auto week = number(5);
    if (!week || *week == 0 || !take('.')) return std::nullopt;
    const auto day = number(6);
    if (!day) return std::nullopt;
    return YearlyMoment{.kind = kWeekday, .month = *month, .week = *week, .day = *day};
  }

  std::optional<YearlyMoment> moment() {
    constexpr unsigned kHoursMax = 167;  // version 3: up to a week away from the day
    if (!take(',')) return std::nullopt;
    auto found = day();
    if (!found || !take('/')) return found;
    const auto at = time(kHoursMax);
    if (!at) return std::nullopt;
    found->time = *at;
    return found;
  }
};

std::optional<PosixRules> read_rules(Reader& reader) {
  constexpr unsigned kOffsetHoursMax = 24;
  if (!reader.name()) return std::nullopt;
  // POSIX says how far UTC is ahead.
  const auto behind = reader.time(kOffsetHoursMax);
  if (!behind) return std::nullopt;
  PosixRules rules{.standard = -*behind};
  if (reader.text.empty()) return rules;
  if (!reader.name()) return std::nullopt;
  seconds summer = rules.standard + hours(1);
  if (!reader.text.starts_with(',')) {
    const auto said = reader.time(kOffsetHoursMax);
    if (!said) return std::nullopt;
    summer = -*said;
  }
  const auto begin = reader.moment();
  if (!begin) return std::nullopt;
  const auto end = reader.moment();
  if (!end || !reader.text.empty()) return std::nullopt;
  rules.summer = {.offset = summer, .begin = *begin, .end = *end};
  return rules;
}

sys_seconds to_utc(local_seconds wall, seconds offset) {
  return sys_seconds(wall.time_since_epoch() - offset);
}

}  // namespace

local_seconds YearlyMoment::in(year year) const {
  const local_days new_year(year / January / 1);
  constexpr unsigned kFebruary = 59;  // of a year without 29 February, the days until March
  switch (kind) {
    case Kind::kDayWithLeap:
      return new_year + days(day) + time;
    case Kind::kDayNotLeap:
      return new_year + days(day - 1 + (year.is_leap() && day > kFebruary ? 1 : 0)) + time;
    case Kind::kWeekday:
      break;
  }
  constexpr unsigned kLastWeek = 5;
  const auto of_month = year / std::chrono::month(month);
  if (week == kLastWeek) return local_days(of_month / weekday(day)[last]) + time;
  return local_days(of_month / weekday(day)[week]) + time;
}

std::vector<PosixRules::Change> PosixRules::changes(year from, year to) const {
  std::vector<Change> all;
  if (!summer) return all;
  for (; from <= to; ++from) {
    all.push_back({.at = to_utc(summer->end.in(from), summer->offset), .offset = standard});
    all.push_back({.at = to_utc(summer->begin.in(from), standard), .offset = summer->offset});
  }
  // At the same moment the beginning comes last: so summer time may last all year.
  std::ranges::sort(all, [&](const Change& a, const Change& b) {
    if (a.at != b.at) return a.at < b.at;
    return a.offset == standard && b.offset != standard;
  });
  return all;
}

Result<PosixRules> parse_posix_rules(std::string_view text) {
  Reader reader{text};
  const auto rules = read_rules(reader);
  const auto is_wild = [](seconds offset) { return abs(offset) > Zone::kOffsetMax; };
  if (!rules || is_wild(rules->standard) || (rules->summer && is_wild(rules->summer->offset)))
    return make_error(ErrorCode::kInvalid, "read time zone", "its rule for the future is no rule");
  return *rules;
}

}  // namespace pons::schedule
