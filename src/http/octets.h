#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

// Which bytes may stand where in HTTP/1.1: one table, so that every reader and writer agrees.
namespace pons::http {

enum OctetKind : std::uint8_t {
  kTokenOctet = 1,   // RFC 9110 tchar
  kValueOctet = 2,   // HTAB, SP, visible ASCII, and obs-text (0x80 to 0xFF)
  kTargetOctet = 4,  // visible ASCII but '#': a fragment never travels
  kHostOctet = 8,    // letters, digits, '-', '.', '_'
};

inline constexpr std::array<std::uint8_t, 256> kOctetKinds = [] {
  std::array<std::uint8_t, 256> kinds{};
  for (unsigned c = 0; c < 256; ++c) {
    const bool digit = c >= '0' && c <= '9';
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (digit || letter) kinds[c] |= kTokenOctet | kHostOctet;
    if (c == '\t' || (c >= 0x20 && c != 0x7f)) kinds[c] |= kValueOctet;
    if (c > 0x20 && c < 0x7f && c != '#') kinds[c] |= kTargetOctet;
  }
  for (const unsigned char c :
       {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'})
    kinds[c] |= kTokenOctet;
  for (const unsigned char c : {'-', '.', '_'}) kinds[c] |= kHostOctet;
  return kinds;
}();

inline bool is_octet(char c, OctetKind kind) {
  return (kOctetKinds[static_cast<unsigned char>(c)] & kind) != 0;
}

// The first byte at or behind `at` that is not of this kind, or `end`.
inline const char* skip_octets(const char* at, const char* end, OctetKind kind) {
  while (at != end && is_octet(*at, kind)) ++at;
  return at;
}

// skip_octets(at, end, kValueOctet), eight bytes at a time: values are most of a head.
inline const char* skip_value(const char* at, const char* end) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  while (end - at >= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    // Sets the high bit of each byte below 0x20 and of each 0x7F. A borrow may also set bits above
    // the lowest such byte, and only the lowest is used.
    const std::uint64_t no_delete = word ^ (kOnes * 0x7f);
    const std::uint64_t stops =
        (((word - kOnes * 0x20) & ~word) | ((no_delete - kOnes) & ~no_delete)) & kHighBits;
    if (stops == 0) {
      at += 8;
      continue;
    }
    at += std::countr_zero(stops) / 8;
    if (*at != '\t') return at;
    ++at;
  }
  return skip_octets(at, end, kValueOctet);
}

}  // namespace pons::http
