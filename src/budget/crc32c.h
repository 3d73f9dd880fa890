#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace pons::budget {

namespace detail {
constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}
inline constexpr std::array<std::uint32_t, 256> kCrcTable = crc_table();
}  // namespace detail

// Castagnoli's: against torn and rotten bytes, not against people.
constexpr std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t value = ~0U;
  for (const char byte : bytes)
    value = (value >> 8) ^ detail::kCrcTable[(value ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~value;
}

}  // namespace pons::budget
