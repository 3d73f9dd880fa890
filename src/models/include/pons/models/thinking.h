#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pons/models/message.h"

namespace pons::models {

// A proof travels through clients of another protocol in the place where that protocol keeps its
// own: sealed so that it is known again, and byte-exact, when the client sends it back.
inline constexpr std::string_view kCarriedProof = "pons1.";  // how it begins
std::string carry_proof(const ThinkingPart& part);
// Nothing when the text is not one of ours: then it is the protocol's own.
std::optional<ThinkingPart> carried_proof(std::string_view text);

// Between "think so many tokens" and "think so hard". Efforts: none, minimal, low, medium, high,
// xhigh, max; an unknown word counts as medium.
std::int64_t budget_of_effort(std::string_view effort);
std::string_view effort_of_budget(std::int64_t tokens);

// What a wish that was made in kMessages is in OpenAI's words, and only in those that the model
// takes; empty: it is not to be told at all, because that is how the model behaves anyhow, or
// because it would refuse the word.
std::string_view openai_effort(const ThinkingWish& wish, std::string_view model);

// Whether OpenAI's own models of this name know the limit of an answer only as
// max_completion_tokens.
bool wants_newer_limit(std::string_view model);

// Whether a model may make tokens that nobody sees. `is_asked`: the request wishes it to think.
bool may_think_unseen(std::string_view model, bool is_asked);

}  // namespace pons::models
