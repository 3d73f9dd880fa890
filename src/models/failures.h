#pragma once

#include <string_view>

#include "pons/models/answer.h"
#include "pons/models/protocol.h"

// What providers say when they refuse: the words and numbers that all protocols share.

namespace pons::models {

// `words` are in lower case.
bool has_words(std::string_view text, std::string_view words);

// Whether a message, code or type says that the prompt does not fit the model.
bool says_context_length(std::string_view text);

// A refused credential is the gateway's own (kUpstream): the caller's key is fine.
Failing kind_of_status(int status);

// {"error":{"message","type","param","code"}}, as both of OpenAI's protocols have it.
ErrorBody write_openai_error(const Failure& failure);
// The failure's own code, or the usual one of its kind.
std::string_view openai_code(const Failure& failure);

}  // namespace pons::models
