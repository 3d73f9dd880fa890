#include "pons/models/thinking.h"

#include <algorithm>
#include <array>
#include <utility>

#include "json_node.h"
#include "json_writer.h"
#include "pons/base/base64.h"
#include "pons/base/text.h"

namespace pons::models {

namespace {

using Step = std::pair<std::string_view, std::int64_t>;
constexpr std::array<Step, 7> kEfforts = {{{"none", 0},
                                           {"minimal", 1'024},
                                           {"low", 2'048},
                                           {"medium", 8'192},
                                           {"high", 16'384},
                                           {"xhigh", 32'768},
                                           {"max", 65'536}}};

}  // namespace

std::string carry_proof(const ThinkingPart& part) {
  std::string json;
  JsonWriter(json)
      .begin_object()
      .field("author", name_of(part.author))
      .field("text", part.text)
      .field("proof", part.proof)
      .field("redacted", part.redacted)
      .end_object();
  return std::string(kCarriedProof) + base64_encode(json);
}

std::optional<ThinkingPart> carried_proof(std::string_view text) {
  if (!text.starts_with(kCarriedProof)) return std::nullopt;
  const auto json = base64_decode(text.substr(kCarriedProof.size()));
  if (!json) return std::nullopt;
  JsonDocument document;
  const auto root = document.parse(*json);
  if (!root) return std::nullopt;
  const auto author = root->string_at("author");
  const auto said = root->string_at("text");
  const auto proof = root->string_at("proof");
  const auto redacted = root->bool_at("redacted");
  if (!author || !said || !proof || !redacted) return std::nullopt;
  ThinkingPart part{.text = std::string(*said), .proof = std::string(*proof)};
  part.redacted = redacted->value_or(false);
  for (const Protocol protocol : {Protocol::kMessages, Protocol::kChat, Protocol::kResponses}) {
    if (name_of(protocol) != *author) continue;
    part.author = protocol;
    return part;
  }
  return std::nullopt;
}

std::int64_t budget_of_effort(std::string_view effort) {
  const auto* const found = std::ranges::find(kEfforts, effort, &Step::first);
  return found == kEfforts.end() ? budget_of_effort("medium") : found->second;
}

std::string_view effort_of_budget(std::int64_t tokens) {
  for (const auto& [effort, budget] : kEfforts)
    if (tokens <= budget) return effort;
  return kEfforts.back().first;
}

}  // namespace pons::models
