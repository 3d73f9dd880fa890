#include "apt_sources.h"

#include <algorithm>

#include "pons/base/text.h"

namespace pons::templates {
namespace {

bool is_about(std::string_view word, std::string_view suite) {
  if (!word.starts_with(suite)) return false;
  return word.size() == suite.size() || word[suite.size()] == '-' || word[suite.size()] == '/';
}

bool has_suite(std::string_view words, std::string_view suite) {
  return std::ranges::any_of(split(words, ' '),
                             [&](std::string_view word) { return is_about(trim(word), suite); });
}

bool is_binary_stanza(std::string_view stanza, std::string_view suite) {
  bool about = false;
  for (const std::string_view line : split(stanza, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = trim(line.substr(colon + 1));
    if (equal_ignoring_case(key, "Suites")) about = has_suite(value, suite);
    if (equal_ignoring_case(key, "Enabled") && equal_ignoring_case(value, "no")) return false;
    if (equal_ignoring_case(key, "Types") && std::ranges::count(split(value, ' '), "deb") == 0)
      return false;
  }
  return about;
}

}  // namespace

std::string one_line_sources_for(std::string_view text, std::string_view suite) {
  std::string kept;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view words = trim(line);
    if (words.starts_with("deb ") && has_suite(words, suite)) kept += std::string(words) + "\n";
  }
  return kept;
}

std::string deb822_sources_for(std::string_view text, std::string_view suite) {
  std::string kept;
  std::string stanza;
  const auto finish = [&] {
    if (is_binary_stanza(stanza, suite)) kept += stanza + "\n";
    stanza.clear();
  };
  for (const std::string_view line : split(text, '\n')) {
    if (trim(line).empty())
      finish();
    else if (!line.starts_with('#'))
      stanza += std::string(line) + "\n";
  }
  finish();
  return kept;
}

std::string fetch_settings(std::string_view dump) {
  std::string kept;
  for (const std::string_view line : split(dump, '\n'))
    if (line.starts_with("Acquire::")) kept += std::string(line) + "\n";
  return kept;
}

std::string without_credentials(std::string_view text) {
  std::string kept;
  for (std::size_t sign = text.find("://"); sign != std::string_view::npos;
       sign = text.find("://")) {
    kept += text.substr(0, sign + 3);
    text.remove_prefix(sign + 3);
    const std::size_t at = text.substr(0, text.find_first_of("/ \t\r\n\"'")).rfind('@');
    if (at != std::string_view::npos) text.remove_prefix(at + 1);
  }
  return kept + std::string(text);
}

bool holds_credentials(std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view words = trim(line);
    if (words.starts_with("//") || words.starts_with('#')) continue;
    std::string lower(words);
    std::ranges::transform(lower, lower.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (lower.find("proxy") != std::string::npos) return true;
    for (std::size_t at = words.find("://"); at != std::string_view::npos;
         at = words.find("://", at + 3)) {
      const std::string_view rest = words.substr(at + 3);
      if (rest.substr(0, rest.find_first_of("/ \t\"'")).find('@') != std::string_view::npos)
        return true;
    }
  }
  return false;
}

}  // namespace pons::templates
