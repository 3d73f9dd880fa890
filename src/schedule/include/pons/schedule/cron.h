#pragma once

#include <bitset>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::schedule {

// A cron expression: five fields (minute, hour, day of month, month, day of week), each of them
// `*`, values, ranges, steps or a list of those. It knows wall clocks and nothing of time zones.
class Cron {
 public:
  static constexpr std::size_t kBytesMax = 256;

  // kInvalid names the field and says why. What can never come (30 February) is refused, too.
  static Result<Cron> parse(std::string_view text);

  const std::string& text() const { return text_; }  // as it was given

  // Nothing in it picks hours, so it is meant to go on at an even pace when clocks are changed.
  bool runs_every_hour() const { return hours_.all(); }

  // The first full minute behind `after` that it names; nothing when the calendar ends before
  // (year 9999).
  std::optional<std::chrono::local_seconds> next_match(std::chrono::local_seconds after) const;

 private:
  bool matches(std::chrono::local_days day) const;
  bool ever_comes() const;
  std::optional<std::chrono::local_days> next_day(std::chrono::local_days from) const;
  std::optional<std::chrono::minutes> next_minute(std::chrono::minutes from) const;

  std::string text_;
  std::bitset<60> minutes_;
  std::bitset<24> hours_;
  std::bitset<32> days_;     // 1 to 31
  std::bitset<13> months_;   // 1 to 12
  std::bitset<7> weekdays_;  // 0: Sunday
  // Both of them pick days: one of the two is enough. A field that begins with `*` does not pick.
  bool either_day_ = false;
};

}  // namespace pons::schedule
