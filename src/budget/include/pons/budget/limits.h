#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/models/answer.h"

namespace pons::budget {

// What is counted. Money is in nano-dollars; tokens are all of them, cached ones too.
enum class What : std::uint8_t { kMoney, kTokens, kRequests, kSandboxSeconds };
inline constexpr std::size_t kWhats = 4;
std::string_view name_of(What what);  // "money", "tokens", "requests", "sandbox_seconds"

// Calendar windows in UTC; a week begins on Monday.
enum class Window : std::uint8_t { kMinute, kHour, kDay, kWeek, kMonth, kTotal };
inline constexpr std::size_t kWindows = 6;
std::string_view name_of(Window window);  // "minute" … "total"

// The window that a moment (milliseconds since 1970) is in: its first moment, and the first of the
// next one; nothing for kTotal.
std::int64_t window_start(Window window, std::int64_t now_ms);
std::optional<std::int64_t> window_end(Window window, std::int64_t now_ms);

// By What. Sums stop at the largest number and never turn around.
struct Amounts {
  std::array<std::int64_t, kWhats> of = {};

  std::int64_t& operator[](What what) { return of[static_cast<std::size_t>(what)]; }
  std::int64_t operator[](What what) const { return of[static_cast<std::size_t>(what)]; }
  Amounts& operator+=(const Amounts& other);
  Amounts& operator-=(const Amounts& other);
  bool operator==(const Amounts&) const = default;
};

// One request of so many tokens at this price.
Amounts amounts_of(const models::Usage& usage, std::int64_t cost_nano);

struct Limit {
  What what = What::kMoney;
  std::int64_t amount = 0;
  Window window = Window::kMonth;
  bool operator==(const Limit&) const = default;
};

// [{"what": "money", "amount": 5000000000, "window": "day"}]: each pair of what and window at most
// once.
Result<std::vector<Limit>> parse_limits(std::string_view json);
std::string limits_text(const std::vector<Limit>& limits);

// Why there is no reservation, for people ("Retry-After") and programs.
struct Refused {
  std::string node;
  Limit limit;
  std::int64_t used = 0;
  std::int64_t reserved = 0;                 // by calls that are under way
  std::optional<std::int64_t> resets_at_ms;  // nothing: by itself never
};

// Whether so much of a limit is used that it is worth a warning.
bool is_past_soft(std::int64_t used, std::int64_t amount, int percent);

// A limit of which so much is used that someone should look.
struct Warning {
  std::string node;
  Limit limit;
  std::int64_t used = 0;
  std::optional<std::int64_t> resets_at_ms;
};

}  // namespace pons::budget
