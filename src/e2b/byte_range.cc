#include "byte_range.h"

#include <algorithm>

#include "pons/base/text.h"

namespace pons::e2b {

RangeRequest read_range(std::optional<std::string_view> field, std::uint64_t file_size) {
  using Kind = RangeRequest::Kind;
  constexpr std::string_view kUnit = "bytes=";
  if (!field || !field->starts_with(kUnit)) return {};
  const std::string_view text = field->substr(kUnit.size());
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return {};
  const std::string_view first = trim(text.substr(0, dash));
  const std::string_view last = trim(text.substr(dash + 1));
  if (first.empty()) {
    const auto suffix = parse_decimal(last);
    if (!suffix) return {};
    if (*suffix == 0 || file_size == 0) return {.kind = Kind::kUnsatisfiable};
    const std::uint64_t size = std::min(*suffix, file_size);
    return {.kind = Kind::kPart, .range = {.offset = file_size - size, .size = size}};
  }
  const auto begin = parse_decimal(first);
  const auto end = last.empty() ? std::optional(UINT64_MAX) : parse_decimal(last);
  if (!begin || !end || *end < *begin) return {};
  if (*begin >= file_size) return {.kind = Kind::kUnsatisfiable};
  const std::uint64_t size = std::min(*end, file_size - 1) - *begin + 1;
  return {.kind = Kind::kPart, .range = {.offset = *begin, .size = size}};
}

}  // namespace pons::e2b
