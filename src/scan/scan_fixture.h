#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "pons/scan/scanner.h"
#include "pons/scan/scrubber.h"

// For tests and fuzzers: encoders written apart from the code under test, and random text.
namespace pons::scan::fixture {

// Every `width` bits of the text as one character of the alphabet.
inline std::string encode_bits(std::string_view text, unsigned width, std::string_view alphabet) {
  std::string encoded;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (count += 8; count >= width; count -= width) {
      encoded += alphabet[bits >> (count - width) & ((1U << width) - 1)];
    }
  }
  if (count > 0) encoded += alphabet[bits << (width - count) & ((1U << width) - 1)];
  return encoded;
}

inline constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
inline constexpr std::string_view kBase64Url =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

inline std::string base64(std::string_view text) {
  return encode_bits(text, 6, kBase64);
}
inline std::string base64_url(std::string_view text) {
  return encode_bits(text, 6, kBase64Url);
}
inline std::string hex(std::string_view text) {
  return encode_bits(text, 4, "0123456789abcdef");
}
inline std::string upper_hex(std::string_view text) {
  return encode_bits(text, 4, "0123456789ABCDEF");
}
inline std::string base32(std::string_view text) {
  return encode_bits(text, 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
}
inline std::string lower_base32(std::string_view text) {
  return encode_bits(text, 5, "abcdefghijklmnopqrstuvwxyz234567");
}
inline std::string utf16_le(std::string_view text) {
  std::string units;
  for (const char c : text) (units += c) += '\0';
  return units;
}
inline std::string utf16_be(std::string_view text) {
  std::string units;
  for (const char c : text) (units += '\0') += c;
  return units;
}

// Each character as prefix + two hex digits + suffix.
inline std::string escape_all(std::string_view text, std::string_view prefix,
                              std::string_view suffix = "") {
  std::string escaped;
  for (const char c : text) escaped.append(prefix).append(hex({&c, 1})).append(suffix);
  return escaped;
}
inline std::string percent(std::string_view text) {
  return escape_all(text, "%");
}
inline std::string json(std::string_view text) {
  return escape_all(text, "\\u00");
}
inline std::string html(std::string_view text) {
  return escape_all(text, "&#x", ";");
}
inline std::string html_decimal(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += "&#" + std::to_string(static_cast<unsigned char>(c)) + ";";
  return escaped;
}
inline std::string quoted_printable(std::string_view text) {
  return escape_all(text, "=");
}
inline std::string every(std::string_view text, std::size_t width, std::string_view between) {
  std::string broken;
  for (std::size_t i = 0; i < text.size(); i += width) {
    if (i > 0) broken += between;
    broken += text.substr(i, width);
  }
  return broken;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t limit) { return engine_() % limit; }
  std::string from(std::string_view alphabet, std::size_t length) {
    std::string text;
    while (text.size() < length) text += alphabet[below(alphabet.size())];
    return text;
  }
  std::string token(std::size_t length) { return "tok_" + from(kBase64.substr(0, 62), length - 4); }
  // Text with much that looks like the start of something to undo.
  std::string noise(std::size_t length) {
    return from("abcdef0123456789 XYZ%%\\\\&&==::--\r\n\n;#xu{}\"/+_tok", length);
  }
  template <class Piece>
  void cut(std::string_view text, std::size_t piece_max, Piece&& piece) {
    while (!text.empty()) {
      const std::size_t size = std::min(text.size(), 1 + below(piece_max));
      piece(text.substr(0, size));
      text.remove_prefix(size);
    }
  }

 private:
  std::mt19937_64 engine_;
};

inline std::shared_ptr<const NeedleSet> make_set(const std::vector<std::string>& texts) {
  std::vector<Needle> needles;
  for (const std::string& text : texts) {
    needles.push_back({.id = static_cast<std::uint32_t>(needles.size()), .text = text});
  }
  return NeedleSet::create(needles).value();
}

// What a Scanner says of the text when it comes in the given pieces.
inline std::optional<Finding> scan_pieces(const NeedleSets& sets, std::string_view text,
                                          std::size_t piece_max, Random& random) {
  Scanner scanner(sets);
  random.cut(text, piece_max, [&](std::string_view piece) { scanner.feed(piece); });
  return scanner.finish();
}

// Every single way of writing a text that is looked for.
using Encoder = std::string (*)(std::string_view);
inline const std::vector<Encoder>& encoders() {
  static const std::vector<Encoder> kEncoders = {
      [](std::string_view text) { return std::string(text); },
      base64,
      base64_url,
      hex,
      upper_hex,
      base32,
      lower_base32,
      utf16_le,
      utf16_be,
      percent,
      json,
      html,
      html_decimal,
      quoted_printable,
      [](std::string_view text) { return every(hex(text), 2, "-"); },
      [](std::string_view text) { return every(base64(text), 9, "\r\n"); },
  };
  return kEncoders;
}

}  // namespace pons::scan::fixture
