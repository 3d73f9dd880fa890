#include "variants.h"

#include <cstddef>

namespace pons::scan {

namespace {

constexpr std::string_view kBase64Alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kBase64UrlAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view kBase32Alphabet = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::string_view kHexAlphabet = "0123456789abcdef";

// Reads the text as digits of `digit_bits` each, as if `preceding` unknown bytes came first, and
// leaves out the digits that depend on more than the text.
WipedBytes encode_digits(std::string_view text, std::size_t preceding, std::size_t digit_bits,
                         std::string_view alphabet) {
  const std::size_t skipped_bits = preceding * 8;
  const std::size_t first = (skipped_bits + digit_bits - 1) / digit_bits;
  const std::size_t end = (skipped_bits + text.size() * 8) / digit_bits;
  WipedBytes digits;
  digits.reserve(end - first);
  for (std::size_t digit = first; digit < end; ++digit) {
    const std::size_t bit = digit * digit_bits - skipped_bits;
    const std::size_t byte = bit / 8;
    unsigned two_bytes = static_cast<unsigned char>(text[byte]) * 256U;
    if (byte + 1 < text.size()) two_bytes += static_cast<unsigned char>(text[byte + 1]);
    const unsigned value = two_bytes >> (16 - digit_bits - bit % 8);
    digits.push_back(alphabet[value & ((1U << digit_bits) - 1)]);
  }
  return digits;
}

WipedBytes encode_utf16(std::string_view text) {
  WipedBytes units;
  units.reserve(text.size() * 2);
  for (const char c : text) {
    if (!units.empty()) units.push_back('\0');
    units.push_back(c);
  }
  return units;
}

}  // namespace

bool is_caseless(Encoding encoding) {
  return encoding == Encoding::kHex || encoding == Encoding::kBase32;
}

const std::vector<Form>& all_forms() {
  static const std::vector<Form> kForms = {
      {Encoding::kPlain, 0},     {Encoding::kBase64, 0},    {Encoding::kBase64, 1},
      {Encoding::kBase64, 2},    {Encoding::kBase64Url, 0}, {Encoding::kBase64Url, 1},
      {Encoding::kBase64Url, 2}, {Encoding::kHex, 0},       {Encoding::kBase32, 0},
      {Encoding::kBase32, 1},    {Encoding::kBase32, 2},    {Encoding::kBase32, 3},
      {Encoding::kBase32, 4},    {Encoding::kUtf16, 0},
  };
  return kForms;
}

WipedBytes encode(Form form, std::string_view text) {
  switch (form.encoding) {
    case Encoding::kPlain:
      return {text.begin(), text.end()};
    case Encoding::kBase64:
      return encode_digits(text, form.preceding, 6, kBase64Alphabet);
    case Encoding::kBase64Url:
      return encode_digits(text, form.preceding, 6, kBase64UrlAlphabet);
    case Encoding::kHex:
      return encode_digits(text, form.preceding, 4, kHexAlphabet);
    case Encoding::kBase32:
      return encode_digits(text, form.preceding, 5, kBase32Alphabet);
    case Encoding::kUtf16:
      return encode_utf16(text);
  }
  return {};
}

}  // namespace pons::scan
