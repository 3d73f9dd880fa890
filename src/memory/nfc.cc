#include "nfc.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace pons::memory {

namespace {

struct ClassRange {
  char32_t first;
  char32_t last;
  std::uint8_t value;
};
struct CodeRange {
  char32_t first;
  char32_t last;
};
struct Pair {
  char32_t first;
  char32_t second;
  char32_t composed;
};

#include "unicode_tables.inc"

// Below it everything is normal, and nothing combines.
constexpr char32_t kFirstCombining = 0x300;

// Hangul syllables are composed by a rule.
constexpr char32_t kSyllable = 0xAC00;
constexpr char32_t kLead = 0x1100;
constexpr char32_t kVowel = 0x1161;
constexpr char32_t kTail = 0x11A7;  // one before the first: a syllable need not have one
constexpr char32_t kLeads = 19;
constexpr char32_t kVowels = 21;
constexpr char32_t kTails = 28;
constexpr char32_t kSyllables = kLeads * kVowels * kTails;

template <class Range>
const Range* find_range(const Range* begin, const Range* end, char32_t code) {
  const Range* const after = std::upper_bound(
      begin, end, code, [](char32_t wanted, const Range& range) { return wanted < range.first; });
  return after != begin && code <= std::prev(after)->last ? std::prev(after) : nullptr;
}

std::uint8_t class_of(char32_t code) {
  const auto* range = find_range(std::begin(kClasses), std::end(kClasses), code);
  return range == nullptr ? 0 : range->value;
}

char32_t compose(char32_t first, char32_t second) {
  if (first - kLead < kLeads && second - kVowel < kVowels)
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTails;
  if (first - kSyllable < kSyllables && (first - kSyllable) % kTails == 0 && second > kTail &&
      second - kTail < kTails)
    return first + (second - kTail);
  const auto* pair =
      std::lower_bound(std::begin(kPairs), std::end(kPairs), std::pair(first, second),
                       [](const Pair& entry, const std::pair<char32_t, char32_t>& wanted) {
                         return std::pair(entry.first, entry.second) < wanted;
                       });
  const bool found = pair != std::end(kPairs) && pair->first == first && pair->second == second;
  return found ? pair->composed : 0;
}

bool may_join_what_is_before(char32_t code) {
  static const auto seconds = [] {
    std::unordered_set<char32_t> all;
    for (const Pair& pair : kPairs) all.insert(pair.second);
    return all;
  }();
  return code - kVowel < kVowels || (code > kTail && code - kTail < kTails) ||
         seconds.contains(code);
}

void decompose(char32_t code, std::u32string& out) {
  static const auto parts = [] {
    std::unordered_map<char32_t, std::pair<char32_t, char32_t>> all;
    for (const Pair& pair : kPairs) all.emplace(pair.composed, std::pair(pair.first, pair.second));
    return all;
  }();
  if (code - kSyllable < kSyllables) {
    const char32_t index = code - kSyllable;
    out += kLead + index / (kVowels * kTails);
    out += kVowel + index % (kVowels * kTails) / kTails;
    if (index % kTails != 0) out += kTail + index % kTails;
  } else if (const auto found = parts.find(code); found != parts.end()) {
    decompose(found->second.first, out);
    out += found->second.second;
  } else {
    out += code;
  }
}

// By class, each behind its equals. The texts are paths: there are never many.
void order_marks(std::u32string& text) {
  const auto by_class = [](char32_t a, char32_t b) { return class_of(a) < class_of(b); };
  auto marks = text.begin();  // of the character at hand
  for (auto at = text.begin(); at != text.end(); ++at) {
    if (class_of(*at) == 0)
      marks = at + 1;
    else
      std::rotate(std::upper_bound(marks, at, *at, by_class), at, at + 1);
  }
}

std::u32string join(std::u32string_view text) {
  std::u32string out;
  std::size_t starter = std::u32string::npos;
  std::uint8_t last = 0;  // class of what stands between the starter and the next
  for (const char32_t code : text) {
    const std::uint8_t own = class_of(code);
    if (starter != std::u32string::npos && (last == 0 || last < own)) {
      if (const char32_t composed = compose(out[starter], code); composed != 0) {
        out[starter] = composed;
        continue;
      }
    }
    if (own == 0) starter = out.size();
    last = own;
    out += code;
  }
  return out;
}

std::u32string normalise(std::u32string_view text) {
  std::u32string parts;
  for (const char32_t code : text) decompose(code, parts);
  order_marks(parts);
  return join(parts);
}

}  // namespace

std::u32string decode_utf8(std::string_view text) {
  std::u32string codes;
  codes.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t code = length == 1 ? lead : lead & (0x7FU >> length);
    for (std::size_t k = 1; k < length && i + k < text.size(); ++k)
      code = (code << 6U) | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    codes += code;
    i += length;
  }
  return codes;
}

bool is_nfc(std::u32string_view text) {
  std::uint8_t last = 0;
  bool is_certain = true;
  for (const char32_t code : text) {
    if (code < kFirstCombining) {
      last = 0;
      continue;
    }
    if (find_range(std::begin(kNeverNormalised), std::end(kNeverNormalised), code) != nullptr)
      return false;
    const std::uint8_t own = class_of(code);
    if (own != 0 && own < last) return false;
    last = own;
    if (may_join_what_is_before(code)) is_certain = false;
  }
  return is_certain || normalise(text) == text;
}

bool is_unprintable(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
         find_range(std::begin(kFormat), std::end(kFormat), code) != nullptr;
}

}  // namespace pons::memory
