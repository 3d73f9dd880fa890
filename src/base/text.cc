#include "pons/base/text.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

namespace pons {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  if (text.empty() || text.size() > 16) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return std::nullopt;
    value = value << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return value;
}

std::optional<std::uint64_t> parse_decimal(std::string_view text) {
  std::uint64_t value = 0;
  if (text.empty() || !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string to_hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string base64_encode(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return to_hex({reinterpret_cast<const char*>(digest), sizeof digest});
}

bool is_valid_utf8(std::string_view text) {
  Utf8Validator validator;
  return validator.feed(text) && validator.complete();
}

bool Utf8Validator::open_code_point(unsigned char lead) {
  // The second byte's range excludes overlong forms, surrogates and code points past U+10FFFF.
  if (lead >= 0xC2 && lead <= 0xDF) {
    expected_ = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    expected_ = 2;
    if (lead == 0xE0) low_ = 0xA0;
    if (lead == 0xED) high_ = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    expected_ = 3;
    if (lead == 0xF0) low_ = 0x90;
    if (lead == 0xF4) high_ = 0x8F;
  } else {
    return false;
  }
  return true;
}

bool Utf8Validator::feed(std::string_view piece) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  std::size_t i = 0;
  while (!refused_ && i < piece.size()) {
    const auto byte = static_cast<unsigned char>(piece[i]);
    if (expected_ > 0) {
      refused_ = byte < low_ || byte > high_;
      low_ = 0x80;
      high_ = 0xBF;
      --expected_;
      ++i;
    } else if (byte >= 0x80) {
      refused_ = !open_code_point(byte);
      ++i;
    } else {
      ++i;
      for (std::uint64_t word = 0; piece.size() - i >= sizeof word; i += sizeof word) {
        std::memcpy(&word, piece.data() + i, sizeof word);
        if ((word & kHighBits) != 0) break;
      }
    }
  }
  return !refused_;
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substitute}));
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string_view> nearest_match(std::string_view word,
                                              std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongestWord =
      64;  // the cost is quadratic and the word may come from anyone
  if (word.size() > kLongestWord) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t best_distance = std::max<std::size_t>(word.size() / 3, 1) + 1;
  for (const auto candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string human_duration(std::uint64_t milliseconds) {
  if (milliseconds < 1000) return fmt::format("{} ms", milliseconds);
  if (milliseconds < 60'000)
    return fmt::format("{:.1f} s", static_cast<double>(milliseconds) / 1000);
  const std::uint64_t seconds = milliseconds / 1000;
  if (seconds < 3600) return fmt::format("{} m {} s", seconds / 60, seconds % 60);
  if (seconds < 86'400) return fmt::format("{} h {} m", seconds / 3600, seconds % 3600 / 60);
  return fmt::format("{} d {} h", seconds / 86'400, seconds % 86'400 / 3600);
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace pons
