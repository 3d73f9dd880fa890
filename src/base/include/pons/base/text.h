#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pons {

std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);
bool equal_ignoring_case(std::string_view a, std::string_view b);  // ASCII only

// Digits only, no sign, no space, no overflow.
std::optional<std::uint64_t> parse_decimal(std::string_view text);
// Lower-case hexadecimal digits only, 1 to 16 of them.
std::optional<std::uint64_t> parse_hex(std::string_view text);

std::string to_hex(std::string_view bytes);
std::string base64_encode(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);

bool is_valid_utf8(std::string_view text);

// Checks UTF-8 that arrives in pieces; a cut may fall inside a code point.
class Utf8Validator {
 public:
  // False as soon as nothing that follows could make the text valid, and from then on.
  bool feed(std::string_view piece);
  // True when all so far is valid and the last code point is whole.
  bool complete() const { return !refused_ && expected_ == 0; }

 private:
  bool open_code_point(unsigned char lead);

  // What the next byte must be when it continues a code point: only the second byte of some has a
  // narrower range.
  unsigned char low_ = 0x80;
  unsigned char high_ = 0xBF;
  std::uint8_t expected_ = 0;  // bytes the open code point still lacks
  bool refused_ = false;
};

// The candidate a person most likely meant, or nothing when none is close.
std::optional<std::string_view> nearest_match(std::string_view word,
                                              std::span<const std::string_view> candidates);

// "1.5 s", "3 m 20 s", "2 d 4 h": for people.
std::string human_duration(std::uint64_t milliseconds);
std::string human_bytes(std::uint64_t bytes);

}  // namespace pons
