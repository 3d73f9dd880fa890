#include "search_query.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::memory {

namespace {

constexpr std::size_t kWordsMax = 12;
constexpr std::size_t kWordBytesMax = 128;
constexpr std::size_t kSnippetBytes = 240;
constexpr std::size_t kBeforeWordBytes = 60;

// Half of all notes hold them: they cost much and tell nothing.
constexpr auto kCommon = std::to_array<std::string_view>(
    {"a",     "about", "an",   "and",   "are",  "as",   "at",  "be",  "by", "can",  "did",  "do",
     "does",  "for",   "from", "had",   "has",  "have", "how", "i",   "if", "in",   "into", "is",
     "it",    "its",   "me",   "my",    "no",   "not",  "of",  "on",  "or", "our",  "so",   "that",
     "the",   "their", "then", "there", "they", "this", "to",  "was", "we", "were", "what", "when",
     "where", "which", "who",  "why",   "will", "with", "you", "your"});

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// What is not ASCII may be a letter of some script; the database knows which.
bool is_word_character(char c) {
  const char small = lower(c);
  return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// Where the character begins that this byte belongs to. What is no UTF-8 has none to look for.
std::size_t character_at(std::string_view text, std::size_t at) {
  constexpr std::size_t kBytesMax = 4;
  for (std::size_t back = 0; back < kBytesMax && back <= at; ++back)
    if (at - back == text.size() || !continues_character(text[at - back])) return at - back;
  return at;
}

std::size_t find_word(std::string_view text, std::string_view word) {
  const auto found = std::search(text.begin(), text.end(), word.begin(), word.end(),
                                 [](char a, char b) { return lower(a) == lower(b); });
  return found == text.end() ? std::string_view::npos
                             : static_cast<std::size_t>(found - text.begin());
}

}  // namespace

std::vector<std::string> words_of(std::string_view question) {
  std::vector<std::string> telling;
  std::vector<std::string> common;
  for (std::size_t at = 0; at < question.size();) {
    const auto* const begin = question.begin() + at;
    const auto* const first = std::find_if(begin, question.end(), is_word_character);
    const auto* const end = std::find_if_not(first, question.end(), is_word_character);
    at = static_cast<std::size_t>(end - question.begin());
    std::string word(first, end);
    std::ranges::transform(word, word.begin(), lower);
    if (word.empty() || word.size() > kWordBytesMax || !is_valid_utf8(word)) continue;
    auto& words = std::ranges::find(kCommon, word) == kCommon.end() ? telling : common;
    if (words.size() < kWordsMax && std::ranges::find(words, word) == words.end())
      words.push_back(std::move(word));
  }
  return telling.empty() ? common : telling;
}

// In FTS5 a word in quotes is a string, and two beside each other must both be there. In PostgreSQL
// websearch_to_tsquery reads this, which knows no syntax error.
std::string write_match(store::Dialect dialect, const std::vector<std::string>& words,
                        Match match) {
  const bool is_sqlite = dialect == store::Dialect::kSqlite;
  const std::string_view between = match == Match::kAllWords ? " " : is_sqlite ? " OR " : " or ";
  std::string text;
  for (const std::string& word : words)
    text += fmt::format("{0}{1}{2}{1}", text.empty() ? "" : between, is_sqlite ? "\"" : "", word);
  return text;
}

std::string snippet_of(std::string_view text, const std::vector<std::string>& words) {
  std::size_t found = std::string_view::npos;
  for (const std::string& word : words) found = std::min(found, find_word(text, word));
  std::size_t begin =
      found == std::string_view::npos || found < kBeforeWordBytes ? 0 : found - kBeforeWordBytes;
  begin = character_at(text, begin);
  const std::size_t end = character_at(text, std::min(text.size(), begin + kSnippetBytes));
  std::string line;
  for (const char c : text.substr(begin, end - begin)) {
    const bool is_space = static_cast<unsigned char>(c) <= 0x20;
    if (!is_space || !line.ends_with(' ')) line += is_space ? ' ' : c;
  }
  return fmt::format("{}{}{}", begin > 0 ? "…" : "", trim(line), end < text.size() ? "…" : "");
}

}  // namespace pons::memory
