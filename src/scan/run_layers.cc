#include "run_layers.h"

#include <algorithm>
#include <array>
#include <optional>

#include "characters.h"
#include "escape_layer.h"

namespace pons::scan {

namespace {

// Fewer characters of a needle than this may be delivered before it is known to be one; see
// Scrubber.
constexpr std::size_t kShortest = 8;

// No encoding of the shortest needle has fewer characters.
constexpr std::size_t kEncodedBytesMin = kNeedleBytesMin * 8 / 6 - 1;

// The characters of base64, base32 and hex.
constexpr std::array<bool, 256> kDigits = [] {
  std::array<bool, 256> digits{};
  for (int c = 0; c < 256; ++c) digits[c] = is_alphanumeric(static_cast<char>(c));
  for (const char c : {'+', '/', '-', '_'}) digits[static_cast<unsigned char>(c)] = true;
  return digits;
}();

bool is_digit_of_encoding(char c) {
  return kDigits[static_cast<unsigned char>(c)];
}

// Whether what goes on over a line break is, for all that can be seen, long enough for a needle.
bool is_worth_following(std::string_view rest, std::size_t digits) {
  for (const char c : rest) {
    if (is_digit_of_encoding(c)) {
      if (++digits >= kEncodedBytesMin) return true;
    } else if (c != '\n' && c != '\r' && c != ' ' && c != '\t') {
      return false;
    }
  }
  return true;
}

constexpr bool is_separator(char c) {
  return c == ':' || c == '-' || c == ' ';
}

enum class Kind : std::uint8_t { kOther, kHexDigit, kSeparator };

constexpr std::array<Kind, 256> kKinds = [] {
  std::array<Kind, 256> kinds{};
  for (int c = 0; c < 256; ++c) {
    if (hex_value(static_cast<char>(c)) >= 0) kinds[c] = Kind::kHexDigit;
    if (is_separator(static_cast<char>(c))) kinds[c] = Kind::kSeparator;
  }
  return kinds;
}();

Kind kind_of(char c) {
  return kKinds[static_cast<unsigned char>(c)];
}

// The shortest needle makes 47 characters, so of its first 32 at least one is looked at when every
// 32nd place is, and has 8 more of the needle ahead.
constexpr std::size_t kStride = 32;
constexpr std::size_t kSampleBytes = 8;
constexpr std::size_t kRunBytesMin = kNeedleBytesMin * 3 - 1;
static_assert(kStride + kSampleBytes <= kRunBytesMin);

// The place of the first separator when text[at…] is part of a run.
std::optional<std::size_t> find_separator(std::string_view text, std::size_t at) {
  std::size_t first = 0;
  while (first < 3 && kind_of(text[at + first]) == Kind::kHexDigit) ++first;
  if (first == 3) return std::nullopt;
  for (std::size_t i = first; i < kSampleBytes; ++i) {
    const Kind expected = i % 3 == first ? Kind::kSeparator : Kind::kHexDigit;
    if (kind_of(text[at + i]) != expected) return std::nullopt;
  }
  return at + first;
}

bool is_pair(std::string_view text, std::size_t at) {
  return kind_of(text[at]) == Kind::kHexDigit && kind_of(text[at + 1]) == Kind::kHexDigit;
}

// Where the run begins that has a separator at `separator`.
std::size_t find_run_start(std::string_view text, std::size_t separator) {
  if (separator < 2 || !is_pair(text, separator - 2)) return separator + 1;
  std::size_t start = separator - 2;
  while (start >= 3 && kind_of(text[start - 1]) == Kind::kSeparator && is_pair(text, start - 3) &&
         separator - start < 2 * kRunBytesMin) {
    start -= 3;
  }
  return start;
}

}  // namespace

std::vector<std::unique_ptr<Layer>> Layer::create_all(const Search& search, View outer) {
  std::vector<std::unique_ptr<Layer>> layers;
  for (const View view : {View::kPercent, View::kJson, View::kHtml, View::kQuotedPrintable}) {
    layers.push_back(std::make_unique<EscapeLayer>(search, view, outer));
  }
  layers.push_back(std::make_unique<LinesLayer>(search, outer));
  layers.push_back(std::make_unique<SeparatorsLayer>(search, outer));
  return layers;
}

LinesLayer::LinesLayer(const Search& search, View outer) : Layer(search, View::kLines, outer) {
  shortest_ = kShortest;
}

void LinesLayer::advance(const Input& input, More /*more*/, HitSink& sink) {
  const std::string_view text = input.text;
  std::size_t at = next_ - input.base;
  while (at < text.size()) {
    if (!is_active()) {
      at = open_at_break(input, std::min(text.find('\n', at), text.size()));
    } else if (text[at] == '\n' || text[at] == '\r') {
      since_break_ = 0;
      ++at;
    } else if (since_break_ == 0 && (text[at] == ' ' || text[at] == '\t')) {
      ++at;
    } else if (since_break_ < search_.reach() && is_digit_of_encoding(text[at])) {
      const std::size_t limit = std::min(text.size(), at + (search_.reach() - since_break_));
      const std::size_t from = at;
      while (at < limit && is_digit_of_encoding(text[at])) ++at;
      episode_.append(input, from, at);
      since_break_ += at - from;
    } else {
      close(sink);
    }
  }
  next_ = input.base + at;
}

std::size_t LinesLayer::open_at_break(const Input& input, std::size_t line_feed) {
  const std::string_view text = input.text;
  if (line_feed == text.size()) return line_feed;
  const std::size_t end = line_feed > 0 && text[line_feed - 1] == '\r' ? line_feed - 1 : line_feed;
  std::size_t begin = end;
  while (begin > 0 && end - begin < search_.reach() && is_digit_of_encoding(text[begin - 1])) {
    --begin;
  }
  if (begin < end && is_worth_following(text.substr(line_feed), end - begin)) {
    open(input, begin, end);
    since_break_ = 0;
  }
  return line_feed + 1;
}

SeparatorsLayer::SeparatorsLayer(const Search& search, View outer)
    : Layer(search, View::kSeparators, outer) {
  shortest_ = kShortest;
}

void SeparatorsLayer::reset() {
  Layer::reset();
  in_run_ = false;
}

void SeparatorsLayer::advance(const Input& input, More /*more*/, HitSink& sink) {
  const std::string_view text = input.text;
  std::size_t at = next_ - input.base;
  while (true) {
    if (in_run_) at = follow_run(input, at, sink);
    if (in_run_) break;
    std::optional<std::size_t> separator;
    for (; at + kSampleBytes <= text.size() && !separator; at += kStride) {
      separator = find_separator(text, at);
    }
    if (!separator) {
      // What is too short to tell is looked at again.
      at = std::min(at, text.size() - std::min(text.size(), kRunBytesMin));
      break;
    }
    at = find_run_start(text, *separator);
    in_run_ = true;
    episode_.begin(input.after);
    digits_ = 0;
  }
  next_ = std::max(next_, input.base + at);
}

std::size_t SeparatorsLayer::follow_run(const Input& input, std::size_t at, HitSink& sink) {
  for (; at < input.text.size(); ++at) {
    const Kind kind = kind_of(input.text[at]);
    if (kind == Kind::kHexDigit && digits_ < 2) {
      episode_.append(input, at, at + 1);
      ++digits_;
    } else if (kind == Kind::kSeparator && digits_ == 2) {
      digits_ = 0;
    } else {
      close(sink);
      in_run_ = false;
      break;
    }
  }
  return at;
}

}  // namespace pons::scan
