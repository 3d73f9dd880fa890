#include "cron_field.h"

#include <array>
#include <optional>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::schedule {

namespace {

constexpr std::array<std::string_view, 12> kMonths = {"jan", "feb", "mar", "apr", "may", "jun",
                                                      "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kWeekdays = {"sun", "mon", "tue", "wed",
                                                       "thu", "fri", "sat"};
constexpr int kSundayAtTheEnd = 7;

constexpr std::array<FieldKind, 5> kKinds = {{
    {.name = "minute", .low = 0, .high = 59, .star_high = 59},
    {.name = "hour", .low = 0, .high = 23, .star_high = 23},
    {.name = "day of month", .low = 1, .high = 31, .star_high = 31},
    {.name = "month", .low = 1, .high = 12, .words = kMonths, .star_high = 12},
    {.name = "day of week", .low = 0, .high = 7, .words = kWeekdays, .star_high = 6},
}};

Error refuse(const FieldKind& kind, std::string_view text, std::string_view why) {
  return make_error(ErrorCode::kInvalid, "read cron expression",
                    fmt::format("{} \"{}\": {}", kind.name, text, why));
}

// Other programs' extensions get a sentence of their own: whoever writes them expects them to work.
std::optional<std::string_view> extension_in(std::string_view text) {
  if (text.find('?') != std::string_view::npos) return "? is not taken; write *";
  if (text.find('#') != std::string_view::npos)
    return "# (the n-th weekday of a month) is not taken";
  if (text.ends_with('W')) return "W (the weekday nearest to a day) is not taken";
  if (text.ends_with('L') || text.starts_with("L-")) return "L (the last day) is not taken";
  return std::nullopt;
}

struct Place {
  int value;
  bool is_word;
};

Result<Place> parse_value(const FieldKind& kind, std::string_view text) {
  for (std::size_t i = 0; i < kind.words.size(); ++i)
    if (equal_ignoring_case(text, kind.words[i]))
      return Place{.value = kind.low + static_cast<int>(i), .is_word = true};
  if (text.empty()) return refuse(kind, text, "a value is missing");
  const auto number = parse_decimal(text);
  if (!number)
    return refuse(kind, text,
                  kind.words.empty() ? "this is no number"
                                     : "this is no number and no name of three letters");
  if (*number < static_cast<std::uint64_t>(kind.low) ||
      *number > static_cast<std::uint64_t>(kind.high))
    return refuse(kind, text, fmt::format("values go from {} to {}", kind.low, kind.high));
  return Place{.value = static_cast<int>(*number), .is_word = false};
}

Result<int> parse_step(const FieldKind& kind, std::string_view text) {
  const int values = kind.star_high - kind.low + 1;
  const auto step = parse_decimal(text);
  if (!step || *step == 0 || *step > static_cast<std::uint64_t>(values))
    return refuse(kind, text, fmt::format("a step is a number from 1 to {}", values));
  return static_cast<int>(*step);
}

struct Range {
  int low;
  int high;
};

Result<Range> parse_range(const FieldKind& kind, std::string_view text) {
  const std::size_t dash = text.find('-');
  const Place first = TRY(parse_value(kind, text.substr(0, dash)));
  if (dash == std::string_view::npos) return Range{.low = first.value, .high = first.value};
  Place last = TRY(parse_value(kind, text.substr(dash + 1)));
  // "fri-sun": a week that is written in words ends with Sunday.
  if (kind.high == kSundayAtTheEnd && last.is_word && last.value == 0 && first.value > 0)
    last.value = kSundayAtTheEnd;
  if (last.value < first.value)
    return refuse(kind, text, "the range goes backwards; write two, with a comma");
  return Range{.low = first.value, .high = last.value};
}

Result<std::uint64_t> parse_plain_element(const FieldKind& kind, std::string_view text) {
  if (text.empty()) return refuse(kind, text, "a value of the list is missing");
  const std::size_t slash = text.find('/');
  const std::string_view what = text.substr(0, slash);
  const bool is_star = what == "*";
  const Range range =
      is_star ? Range{.low = kind.low, .high = kind.star_high} : TRY(parse_range(kind, what));
  int step = 1;
  if (slash != std::string_view::npos) {
    if (!is_star && what.find('-') == std::string_view::npos)
      return refuse(kind, text, fmt::format("a step needs a range: {}-{}/…", what, kind.star_high));
    step = TRY(parse_step(kind, text.substr(slash + 1)));
  }
  std::uint64_t values = 0;
  for (int value = range.low; value <= range.high; value += step) {
    const bool is_sunday = kind.high == kSundayAtTheEnd && value == kSundayAtTheEnd;
    values |= std::uint64_t{1} << (is_sunday ? 0 : value);
  }
  return values;
}

Result<std::uint64_t> parse_element(const FieldKind& kind, std::string_view text) {
  auto values = parse_plain_element(kind, text);
  if (const auto why = extension_in(text); !values && why) return refuse(kind, text, *why);
  return values;
}

}  // namespace

std::span<const FieldKind> field_kinds() {
  return kKinds;
}

Result<Field> parse_field(const FieldKind& kind, std::string_view text) {
  Field field{.is_star = text.starts_with('*')};
  for (const std::string_view element : split(text, ','))
    field.values |= TRY(parse_element(kind, element));
  return field;
}

}  // namespace pons::schedule
