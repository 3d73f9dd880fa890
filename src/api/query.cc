#include "pons/api/query.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/base64.h"
#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/http/query.h"

namespace pons::api {

namespace {

constexpr std::size_t kPairsMax = 500;
constexpr std::size_t kCursorBytesMax = 4'096;
constexpr std::size_t kPositionsMax = 4;

Error refuse(std::string_view name, std::string_view why) {
  return make_error(ErrorCode::kInvalid, "read query", fmt::format("{}: {}", name, why));
}

std::string decoded(std::string_view text) {
  std::string plain(text);
  std::ranges::replace(plain, '+', ' ');
  return http::percent_decode(plain).value_or("");
}

std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return std::nullopt;
  const auto number = parse_decimal(text.substr(at, count));
  if (!number) return std::nullopt;
  return static_cast<int>(*number);
}

// "Z", "+01:00": minutes.
std::optional<int> parse_offset(std::string_view text) {
  if (text == "Z" || text == "z") return 0;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return std::nullopt;
  const auto hours = digits(text, 1, 2);
  const auto minutes = digits(text, 4, 2);
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  return (text[0] == '-' ? -1 : 1) * (*hours * 60 + *minutes);
}

}  // namespace

Result<Query> Query::parse(std::string_view text) {
  Query query;
  if (text.empty()) return query;
  for (const std::string_view pair : split(text, '&')) {
    if (query.pairs_.size() == kPairsMax) return refuse("the query", "has too many values");
    const std::size_t equals = std::min(pair.find('='), pair.size());
    std::string value = decoded(pair.substr(std::min(equals + 1, pair.size())));
    if (value.empty()) continue;
    if (!is_valid_utf8(value) || value.find('\0') != std::string::npos)
      return refuse("the query", "is no text");
    query.pairs_.emplace_back(decoded(pair.substr(0, equals)), std::move(value));
  }
  return query;
}

std::optional<std::string> Query::find(std::string_view name) const {
  const auto found = std::ranges::find(pairs_, name, &std::pair<std::string, std::string>::first);
  if (found == pairs_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> Query::all(std::string_view name) const {
  const std::string listed = std::string(name) + "[]";
  std::vector<std::string> values;
  for (const auto& [key, value] : pairs_)
    if (key == name || key == listed) values.push_back(value);
  return values;
}

Result<bool> Query::flag(std::string_view name) const {
  const auto text = find(name);
  if (!text || *text == "false") return false;
  if (*text == "true") return true;
  return refuse(name, "must be true or false");
}

Result<std::optional<std::int64_t>> Query::number(std::string_view name, std::int64_t max) const {
  const auto text = find(name);
  if (!text) return std::optional<std::int64_t>();
  const auto number = parse_decimal(*text);
  if (!number || *number > static_cast<std::uint64_t>(max))
    return refuse(name, fmt::format("must be a whole number up to {}", max));
  return std::optional(static_cast<std::int64_t>(*number));
}

Result<std::optional<std::int64_t>> Query::time(std::string_view name) const {
  const auto text = find(name);
  if (!text) return std::optional<std::int64_t>();
  const auto time = parse_time(*text);
  if (!time) return refuse(name, "must be a time such as 2026-11-15T00:00:00Z");
  return time;
}

std::string write_time(std::int64_t unix_ms) {
  using namespace std::chrono;
  const sys_time<milliseconds> time{milliseconds(unix_ms)};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  clock.hours().count(), clock.minutes().count(), clock.seconds().count());
  if (const auto rest = clock.subseconds().count(); rest != 0) text += fmt::format(".{:03}", rest);
  return text + "Z";
}

std::optional<std::int64_t> parse_time(std::string_view text) {
  using namespace std::chrono;
  // 2026-11-15T00:00:00[.123…](Z|+01:00)
  constexpr std::size_t kSeconds = 19;
  if (text.size() < kSeconds + 1 || text.size() > 40) return std::nullopt;
  if (text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != 't' && text[10] != ' ') ||
      text[13] != ':' || text[16] != ':')
    return std::nullopt;
  const auto y = digits(text, 0, 4), mo = digits(text, 5, 2), d = digits(text, 8, 2);
  const auto h = digits(text, 11, 2), mi = digits(text, 14, 2), s = digits(text, 17, 2);
  if (!y || !mo || !d || !h || !mi || !s || *h > 23 || *mi > 59 || *s > 60) return std::nullopt;
  const year_month_day date{year(*y), month(static_cast<unsigned>(*mo)),
                            day(static_cast<unsigned>(*d))};
  if (!date.ok()) return std::nullopt;
  std::size_t at = kSeconds;
  std::int64_t fraction = 0;
  if (text[at] == '.') {
    std::int64_t scale = 100;
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, scale /= 10)
      fraction += (text[at] - '0') * scale;
  }
  const auto offset = parse_offset(text.substr(at));
  if (!offset) return std::nullopt;
  const auto whole = sys_days(date) + hours(*h) + minutes(*mi) + seconds(*s) - minutes(*offset);
  return duration_cast<milliseconds>(whole.time_since_epoch()).count() + fraction;
}

std::string write_cursor(std::string_view list, const std::vector<std::string>& position) {
  Json parts = {list};
  for (const std::string& part : position) parts.push_back(part);
  std::string text = base64_encode(dump_json(parts));
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  while (text.ends_with('=')) text.pop_back();
  return text;
}

Result<PageWish> read_page(const Query& query, std::string_view list, PageLimits limits) {
  PageWish wish{.limit = limits.usual, .after = {}};
  if (const auto limit = TRY(query.number("limit", limits.max))) wish.limit = *limit;
  if (wish.limit == 0) return refuse("limit", "must be at least 1");
  auto text = query.find("page");
  if (!text) return wish;
  const Error wrong = refuse("page", "is not one of this list's next_page values");
  if (text->size() > kCursorBytesMax) return wrong;
  std::ranges::replace(*text, '-', '+');
  std::ranges::replace(*text, '_', '/');
  text->append((4 - text->size() % 4) % 4, '=');
  const auto bytes = base64_decode(*text);
  if (!bytes) return wrong;
  const auto parts = parse_json(*bytes);
  if (!parts || !parts->is_array() || parts->size() < 2 || parts->size() > kPositionsMax + 1)
    return wrong;
  for (const Json& part : *parts)
    if (!part.is_string() || part.get_ref<const std::string&>().find('\0') != std::string::npos)
      return wrong;
  if ((*parts)[0] != list) return wrong;
  for (std::size_t i = 1; i < parts->size(); ++i) wish.after.push_back((*parts)[i]);
  return wish;
}

Result<std::int64_t> number_in(const PageWish& wish, std::size_t position) {
  if (position >= wish.after.size()) return refuse("page", "is not one of this list's");
  const auto number = parse_decimal(wish.after[position]);
  constexpr std::uint64_t kMax = 1ULL << 62;
  if (!number || *number > kMax) return refuse("page", "is not one of this list's");
  return static_cast<std::int64_t>(*number);
}

}  // namespace pons::api
