#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pons/store/store.h"

// A question in anybody's words as one that a database takes: only words are kept, so that no text
// is a syntax error or an operator.

namespace pons::memory {

// Words of a question, each once: those that are in every text only where there are no others.
std::vector<std::string> words_of(std::string_view question);

enum class Match : std::uint8_t { kAllWords, kAnyWord };
std::string write_match(store::Dialect dialect, const std::vector<std::string>& words, Match match);

// One line of the text around the first of the words; its beginning when none stands in it.
std::string snippet_of(std::string_view text, const std::vector<std::string>& words);

}  // namespace pons::memory
