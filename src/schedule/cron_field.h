#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pons/base/result.h"

namespace pons::schedule {

// What one of the five fields may hold.
struct FieldKind {
  std::string_view name;  // "day of week"
  int low;
  int high;
  std::span<const std::string_view> words = {};  // names of the values, from `low` on
  int star_high;                                 // up to where `*` goes: 7 is 0 said otherwise
};

// The five of them, in their order.
std::span<const FieldKind> field_kinds();

struct Field {
  std::uint64_t values = 0;  // one bit each
  bool is_star = false;      // begins with `*`
};

Result<Field> parse_field(const FieldKind& kind, std::string_view text);

}  // namespace pons::schedule
