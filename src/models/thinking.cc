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

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "gpt-5" of "openrouter/openai/gpt-5".
std::string_view without_provider(std::string_view model) {
  return model.substr(model.rfind('/') + 1);
}

// 502 of "gpt-5.2-codex", 500 of "gpt-5"; 0: it is none of these.
int gpt_version(std::string_view model) {
  constexpr std::string_view kGpt = "gpt-";
  if (!model.starts_with(kGpt)) return 0;
  model.remove_prefix(kGpt.size());
  int version = 0;
  for (; !model.empty() && is_digit(model.front()); model.remove_prefix(1))
    version = std::min(version * 10 + (model.front() - '0'), 99);
  version *= 100;
  if (model.size() > 1 && model.front() == '.' && is_digit(model[1])) version += model[1] - '0';
  return version;
}

// "o1", "o4-mini".
bool is_o_series(std::string_view model) {
  return model.size() > 1 && model.front() == 'o' && is_digit(model[1]);
}

bool takes_xhigh(std::string_view model) {
  constexpr int kFirst = 502;
  return gpt_version(model) >= kFirst || model.find("codex-max") != std::string_view::npos;
}

}  // namespace

std::string_view openai_effort(const ThinkingWish& wish, std::string_view model) {
  std::string_view effort = wish.effort;
  if (wish.kind == ThinkingWish::Kind::kOff || wish.kind == ThinkingWish::Kind::kUnset) return {};
  if (wish.kind == ThinkingWish::Kind::kBudget) {
    effort = effort_of_budget(wish.budget_tokens);
    // These three are what every model that thinks takes.
    if (effort == "minimal" || effort == "none") return "low";
    return effort == "low" || effort == "medium" ? effort : "high";
  }
  if (effort == "xhigh" || effort == "max")
    return takes_xhigh(without_provider(model)) ? "xhigh" : "high";
  return effort;
}

bool wants_newer_limit(std::string_view model) {
  model = without_provider(model);
  constexpr int kFirst = 500;
  return is_o_series(model) || gpt_version(model) >= kFirst;
}

bool may_think_unseen(std::string_view model, bool is_asked) {
  // Of these it is known that they do not think unless they are asked to, or not at all.
  constexpr std::array<std::string_view, 8> kPlain = {
      "gpt-3.5",        "gpt-4",           "chatgpt-4o",    "claude-3",
      "claude-haiku-4", "claude-sonnet-4", "claude-opus-4", "mistral-"};
  return is_asked || std::ranges::none_of(kPlain, [&](std::string_view name) {
           return without_provider(model).starts_with(name);
         });
}

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
