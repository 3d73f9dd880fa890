#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pons::e2b {

struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

struct RangeRequest {
  enum class Kind : std::uint8_t { kWhole, kPart, kUnsatisfiable } kind = Kind::kWhole;
  ByteRange range;  // kPart
};

// What a Range field asks of a file of that size (RFC 9110). Several ranges, other units and
// nonsense ask for the whole.
RangeRequest read_range(std::optional<std::string_view> field, std::uint64_t file_size);

}  // namespace pons::e2b
