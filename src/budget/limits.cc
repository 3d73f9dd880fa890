#include "pons/budget/limits.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::budget {

namespace {

using std::chrono::days;
using std::chrono::milliseconds;
using std::chrono::sys_days;

constexpr std::array<std::string_view, kWhats> kWhatNames = {"money", "tokens", "requests",
                                                             "sandbox_seconds"};
constexpr std::array<std::string_view, kWindows> kWindowNames = {"minute", "hour",  "day",
                                                                 "week",   "month", "total"};

// 1970-01-01 is a Thursday.
constexpr std::int64_t kDaysFromMonday = 3;
constexpr std::int64_t kMinuteMs = 60'000;
constexpr std::int64_t kHourMs = 60 * kMinuteMs;
constexpr std::int64_t kDayMs = 24 * kHourMs;
constexpr std::int64_t kWeekDays = 7;

std::int64_t ms_of(sys_days day) {
  return milliseconds(day.time_since_epoch()).count();
}

sys_days month_start(std::int64_t now_ms) {
  const std::chrono::year_month_day today(sys_days(days(now_ms / kDayMs)));
  return sys_days(today.year() / today.month() / std::chrono::day(1));
}

std::int64_t add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a > 0 ? std::numeric_limits<std::int64_t>::max()
               : std::numeric_limits<std::int64_t>::min();
}

Error wrong(std::string_view what) {
  return make_error(ErrorCode::kInvalid, "read limits",
                    fmt::format("limits: {}; one is {{\"what\": \"{}\", \"amount\": 1000, "
                                "\"window\": \"{}\"}}",
                                what, fmt::join(kWhatNames, "|"), fmt::join(kWindowNames, "|")));
}

template <std::size_t kCount>
Result<std::size_t> index_of(const Json& entry, const char* field,
                             const std::array<std::string_view, kCount>& names) {
  const auto found = entry.find(field);
  if (found == entry.end() || !found->is_string())
    return wrong(fmt::format("\"{}\" must be there and be text", field));
  const auto name = std::ranges::find(names, found->get_ref<const std::string&>());
  if (name == names.end()) return wrong(fmt::format("\"{}\" is none of its words", field));
  return static_cast<std::size_t>(name - names.begin());
}

Result<Limit> limit_of(const Json& entry) {
  if (!entry.is_object() || entry.size() != 3) return wrong("each has three fields");
  Limit limit{.what = static_cast<What>(TRY(index_of(entry, "what", kWhatNames))),
              .window = static_cast<Window>(TRY(index_of(entry, "window", kWindowNames)))};
  const auto amount = entry.find("amount");
  if (amount == entry.end() || !amount->is_number_unsigned() ||
      amount->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    return wrong("\"amount\" is a whole number from 0 on");
  limit.amount = amount->get<std::int64_t>();
  return limit;
}

}  // namespace

std::string_view name_of(What what) {
  return kWhatNames[static_cast<std::size_t>(what)];
}

std::string_view name_of(Window window) {
  return kWindowNames[static_cast<std::size_t>(window)];
}

std::int64_t window_start(Window window, std::int64_t now_ms) {
  now_ms = std::max<std::int64_t>(now_ms, 0);
  switch (window) {
    case Window::kMinute:
      return now_ms - now_ms % kMinuteMs;
    case Window::kHour:
      return now_ms - now_ms % kHourMs;
    case Window::kDay:
      return now_ms - now_ms % kDayMs;
    case Window::kWeek: {
      const std::int64_t day = now_ms / kDayMs;
      return std::max<std::int64_t>(0, day - (day + kDaysFromMonday) % kWeekDays) * kDayMs;
    }
    case Window::kMonth:
      return ms_of(month_start(now_ms));
    case Window::kTotal:
      return 0;
  }
  return 0;
}

std::optional<std::int64_t> window_end(Window window, std::int64_t now_ms) {
  const std::int64_t start = window_start(window, now_ms);
  switch (window) {
    case Window::kMinute:
      return start + kMinuteMs;
    case Window::kHour:
      return start + kHourMs;
    case Window::kDay:
      return start + kDayMs;
    case Window::kWeek:
      return start + (kWeekDays - (start / kDayMs + kDaysFromMonday) % kWeekDays) * kDayMs;
    case Window::kMonth: {
      constexpr days kIntoNextMonth{31};
      return ms_of(month_start(ms_of(month_start(now_ms) + kIntoNextMonth)));
    }
    case Window::kTotal:
      return std::nullopt;
  }
  return std::nullopt;
}

Amounts& Amounts::operator+=(const Amounts& other) {
  for (std::size_t i = 0; i < kWhats; ++i) of[i] = add(of[i], other.of[i]);
  return *this;
}

Amounts& Amounts::operator-=(const Amounts& other) {
  for (std::size_t i = 0; i < kWhats; ++i) of[i] = add(of[i], -other.of[i]);
  return *this;
}

Amounts amounts_of(const models::Usage& usage, std::int64_t cost_nano) {
  Amounts amounts;
  amounts[What::kMoney] = cost_nano;
  amounts[What::kTokens] = usage.prompt() + usage.output;
  amounts[What::kRequests] = 1;
  return amounts;
}

Result<std::vector<Limit>> parse_limits(std::string_view json) {
  constexpr JsonLimits kJsonLimits{.depth = 4, .bytes = 8192};
  const Json list = TRY(parse_json(json, kJsonLimits));
  if (!list.is_array() || list.size() > kWhats * kWindows) return wrong("an array is wanted");
  std::vector<Limit> limits;
  for (const Json& entry : list) {
    const Limit limit = TRY(limit_of(entry));
    for (const Limit& other : limits)
      if (other.what == limit.what && other.window == limit.window)
        return wrong(fmt::format("{} per {} stands there twice", name_of(limit.what),
                                 name_of(limit.window)));
    limits.push_back(limit);
  }
  return limits;
}

std::string limits_text(const std::vector<Limit>& limits) {
  Json list = Json::array();
  for (const Limit& limit : limits)
    list.push_back({{"what", name_of(limit.what)},
                    {"amount", limit.amount},
                    {"window", name_of(limit.window)}});
  return dump_json(list);
}

bool is_past_soft(std::int64_t used, std::int64_t amount, int percent) {
  constexpr int kWhole = 100;
  __extension__ using Wide = __int128;
  return Wide{used} * kWhole >= Wide{amount} * percent;
}

}  // namespace pons::budget
