#pragma once

#include <algorithm>
#include <string_view>

namespace pons::scan {

constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

constexpr bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (to_lower(c) >= 'a' && to_lower(c) <= 'z');
}

// -1 for what is no hex digit.
constexpr int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = to_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

constexpr bool equal_ignoring_case(std::string_view text, std::string_view lower_case) {
  return std::ranges::equal(text, lower_case,
                            [](char ours, char lower) { return to_lower(ours) == lower; });
}

}  // namespace pons::scan
