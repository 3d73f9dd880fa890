#include "escapes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "characters.h"

namespace pons::scan {

namespace {

using State = Escape::State;

constexpr Escape kNoEscape{};
constexpr Escape kUnfinished{.state = State::kNeedMore};

// UTF-8, so that what JSON and HTML call a character becomes the bytes it has elsewhere.
Escape stands_for(std::uint32_t code_point, std::size_t raw_bytes) {
  Escape escape{.state = State::kEscape, .raw_bytes = static_cast<std::uint8_t>(raw_bytes)};
  const auto put = [&escape](std::uint32_t byte) {
    escape.bytes[escape.byte_count++] = static_cast<char>(byte);
  };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18 & 0x07));
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
  return escape;
}

// A byte as it is, also above 127.
Escape stands_for_byte(int value, std::size_t raw_bytes) {
  return {.state = State::kEscape,
          .raw_bytes = static_cast<std::uint8_t>(raw_bytes),
          .byte_count = 1,
          .bytes = {static_cast<char>(value)}};
}

// `count` hex digits from `start` on: their value, -1 when they are none, -2 when text ends first.
int read_hex(std::string_view text, std::size_t start, std::size_t count) {
  int value = 0;
  for (std::size_t i = start; i < start + count; ++i) {
    if (i >= text.size()) return -2;
    const int digit = hex_value(text[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

Escape read_hex_byte(std::string_view text, std::size_t start) {
  const int value = read_hex(text, start, 2);
  if (value == -2) return kUnfinished;
  return value < 0 ? kNoEscape : stands_for_byte(value, start + 2);
}

Escape read_quoted_printable(std::string_view text) {
  if (text.size() < 2) return kUnfinished;
  if (text[1] == '\n') return {.state = State::kEscape, .raw_bytes = 2};
  if (text[1] != '\r') return read_hex_byte(text, 1);
  if (text.size() < 3) return kUnfinished;
  return text[2] == '\n' ? Escape{.state = State::kEscape, .raw_bytes = 3} : kNoEscape;
}

// Digits up to `end`: of a number in braces or of a numeric character reference.
Escape read_number(std::string_view text, std::size_t start, int radix, char end) {
  std::uint32_t value = 0;
  for (std::size_t i = start; i < kEscapeBytesMax; ++i) {
    if (i >= text.size()) return kUnfinished;
    if (text[i] == end) return i > start ? stands_for(value, i + 1) : kNoEscape;
    const int digit = hex_value(text[i]);
    if (digit < 0 || digit >= radix) return kNoEscape;
    value = value * static_cast<std::uint32_t>(radix) + static_cast<std::uint32_t>(digit);
    if (value > 0x10FFFF) return kNoEscape;
  }
  return kNoEscape;
}

Escape read_json(std::string_view text) {
  if (text.size() < 2) return kUnfinished;
  if (text[1] == 'x') return read_hex_byte(text, 2);
  if (text[1] == 'u') {
    if (text.size() > 2 && text[2] == '{') return read_number(text, 3, 16, '}');
    const int value = read_hex(text, 2, 4);
    if (value == -2) return kUnfinished;
    return value < 0 ? kNoEscape : stands_for(static_cast<std::uint32_t>(value), 6);
  }
  constexpr std::string_view kShort = "/\"\\'bfnrt";
  constexpr std::string_view kMeaning = "/\"\\'\b\f\n\r\t";
  const std::size_t at = kShort.find(text[1]);
  return at == std::string_view::npos ? kNoEscape : stands_for_byte(kMeaning[at], 2);
}

constexpr std::array<std::pair<std::string_view, char>, 22> kNamed = {{
    {"&amp;", '&'},    {"&lt;", '<'},       {"&gt;", '>'},     {"&quot;", '"'},   {"&apos;", '\''},
    {"&sol;", '/'},    {"&plus;", '+'},     {"&equals;", '='}, {"&lowbar;", '_'}, {"&period;", '.'},
    {"&colon;", ':'},  {"&semi;", ';'},     {"&comma;", ','},  {"&num;", '#'},    {"&percnt;", '%'},
    {"&dollar;", '$'}, {"&excl;", '!'},     {"&commat;", '@'}, {"&ast;", '*'},    {"&bsol;", '\\'},
    {"&tab;", '\t'},   {"&newline;", '\n'},
}};

Escape read_html(std::string_view text) {
  if (text.size() < 2) return kUnfinished;
  if (text[1] == '#') {
    if (text.size() < 3) return kUnfinished;
    return to_lower(text[2]) == 'x' ? read_number(text, 3, 16, ';') : read_number(text, 2, 10, ';');
  }
  const char initial = to_lower(text[1]);
  for (const auto& [name, meaning] : kNamed) {
    if (name[1] != initial) continue;
    const std::size_t length = std::min(name.size(), text.size());
    if (!equal_ignoring_case(text.substr(0, length), name.substr(0, length))) continue;
    return length < name.size() ? kUnfinished : stands_for_byte(meaning, length);
  }
  return kNoEscape;
}

// Writes the value with leading zeros over all of `digits`; says whether it fits.
bool write_number(std::span<char> digits, unsigned value, unsigned radix) {
  const bool upper = std::ranges::any_of(digits, [](char c) { return c >= 'A' && c <= 'F'; });
  for (std::size_t i = digits.size(); i-- > 0; value /= radix) {
    digits[i] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[value % radix];
  }
  return value == 0;
}

// Where the digits of a numeric sequence stand, and their radix; no digits for all others.
std::pair<std::span<char>, unsigned> find_digits(View view, std::span<char> sequence) {
  if (view == View::kPercent || view == View::kQuotedPrintable) {
    return {sequence.size() == 3 ? sequence.subspan(1) : std::span<char>(), 16};
  }
  if (sequence.size() < 4) return {};
  const std::size_t inner_end = sequence.size() - 1;
  if (view == View::kJson && sequence[1] == 'x') return {sequence.subspan(2), 16};
  if (view == View::kJson && sequence[2] != '{') return {sequence.subspan(2), 16};
  if (view == View::kJson) return {sequence.subspan(3, inner_end - 3), 16};
  if (sequence[1] != '#') return {};
  if (to_lower(sequence[2]) == 'x') return {sequence.subspan(3, inner_end - 3), 16};
  return {sequence.subspan(2, inner_end - 2), 10};
}

}  // namespace

char escape_trigger(View view) {
  switch (view) {
    case View::kPercent:
      return '%';
    case View::kJson:
      return '\\';
    case View::kHtml:
      return '&';
    default:
      return '=';
  }
}

Escape read_escape(View view, std::string_view text) {
  switch (view) {
    case View::kPercent:
      return read_hex_byte(text, 1);
    case View::kJson:
      return read_json(text);
    case View::kHtml:
      return read_html(text);
    default:
      return read_quoted_printable(text);
  }
}

void rewrite_escape(View view, std::span<char> sequence, char byte) {
  const auto [digits, radix] = find_digits(view, sequence);
  if (digits.empty()) {
    std::ranges::fill(sequence, is_alphanumeric(byte) ? byte : 'x');
    return;
  }
  if (!write_number(digits, static_cast<unsigned char>(byte), radix)) {
    std::ranges::fill(digits, '0');
    write_number(digits, digits.size() > 1 ? '0' : 0, radix);
  }
}

}  // namespace pons::scan
