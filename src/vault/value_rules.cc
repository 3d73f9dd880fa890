#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/vault/credential.h"
#include "services.h"

// A value that can be guessed is no secret, and one that occurs in innocent text would be cut out
// of every page. Both are told by its text alone; no list of leaked values is asked.

namespace pons::vault {

namespace {

constexpr std::size_t kValueBytesMin = 22;
constexpr std::size_t kValueBytesMax = 8 * 1024;
constexpr double kEntropyBitsMin = 60;
// Common pairs of letters in English: about two of five in text, one of seventeen in random
// letters.
constexpr std::string_view kPairs =
    "th he in er an re nd at on nt ha es st en ed to it ou ea hi is or ti as te et ng of al de se "
    "le "
    "sa si ar ve ra ld ur";

Error weak(std::string_view why) {
  return make_error(ErrorCode::kInvalid, "check value", fmt::format("the value {}", why));
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Shannon's, from the frequencies in the value itself, for the whole of it.
double entropy_bits(std::string_view value) {
  std::array<std::size_t, 256> counts{};
  for (const char c : value) ++counts[static_cast<unsigned char>(c)];
  const auto size = static_cast<double>(value.size());
  return std::accumulate(counts.begin(), counts.end(), 0.0, [&](double sum, std::size_t count) {
    return count == 0
               ? sum
               : sum - static_cast<double>(count) * std::log2(static_cast<double>(count) / size);
  });
}

// Whether it begins anew at least once: "abcabcab".
bool is_repetition(std::string_view value) {
  for (std::size_t period = 1; period * 2 <= value.size(); ++period)
    if (value.substr(period) == value.substr(0, value.size() - period)) return true;
  return false;
}

// "abcdefgh…", "9876…": most neighbours are next to each other in the alphabet, or the same.
bool is_sequence(std::string_view value) {
  std::size_t near = 0;
  for (std::size_t i = 1; i < value.size(); ++i) near += std::abs(value[i] - value[i - 1]) <= 1;
  return near * 2 > value.size();
}

// Letters of one case, with the pairs of a language.
bool is_prose(std::string_view value) {
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool mixed = std::ranges::any_of(value, is_upper) && std::ranges::any_of(value, is_lower);
  if (mixed || std::ranges::any_of(value, is_digit)) return false;
  std::size_t common = 0, pairs = 0;
  for (std::size_t i = 1; i < value.size(); ++i) {
    if (!is_letter_or_digit(value[i - 1]) || !is_letter_or_digit(value[i])) continue;
    const char pair[] = {static_cast<char>(value[i - 1] | 0x20),
                         static_cast<char>(value[i] | 0x20)};
    ++pairs;
    common += kPairs.find(std::string_view(pair, 2)) != std::string_view::npos;
  }
  return common * 4 > pairs;
}

// "your-api-token-here": what is left without such words is too little.
bool is_placeholder(std::string_view value) {
  std::string rest(value);
  for (char& c : rest)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  bool found = false;
  for (const std::string& word : services().placeholder_words)
    for (auto at = rest.find(word); at != std::string::npos; at = rest.find(word, at)) {
      rest.replace(at, word.size(), "-");
      found = true;
    }
  const auto left = std::ranges::count_if(rest, is_letter_or_digit);
  wipe(rest.data(), rest.size());
  return found && static_cast<std::size_t>(left) < kValueBytesMin;
}

}  // namespace

Result<void> check_value(std::string_view value) {
  if (value.size() > kValueBytesMax) return weak("has more than 8 KiB");
  if (!std::ranges::all_of(value, [](char c) { return c >= 0x20 && c < 0x7F; }))
    return weak("has characters that are not printable ASCII (a line end, perhaps)");
  if (trim(value) != value) return weak("begins or ends with a space");
  const auto carriers = std::ranges::count_if(value, is_letter_or_digit);
  if (static_cast<std::size_t>(carriers) < kValueBytesMin)
    return weak(fmt::format("has {} letters and digits; a stub needs at least {} to be unguessable",
                            carriers, kValueBytesMin));
  if (is_repetition(value)) return weak("repeats itself");
  if (is_sequence(value)) return weak("is a sequence of neighbouring characters");
  if (is_placeholder(value)) return weak("looks like a placeholder, not like a secret");
  if (is_prose(value)) return weak("reads like words, not like a secret");
  if (entropy_bits(value) < kEntropyBitsMin) return weak("has too few different characters");
  return {};
}

}  // namespace pons::vault
