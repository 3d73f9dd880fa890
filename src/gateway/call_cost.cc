#include "call_cost.h"

#include <algorithm>

#include "pons/models/thinking.h"

namespace pons::gateway {

namespace {

constexpr std::int64_t kSearchesWhenUnknown = 10;  // of a call that may make some
// More than large models make; small ones are faster, and cost a tenth.
constexpr std::int64_t kTokensPerSecondMost = 300;

std::int64_t output_most(const models::RequestFacts& facts, const budget::Price* price) {
  const std::int64_t model_most = price != nullptr ? price->output_tokens_max : 0;
  if (model_most == 0) return facts.output_tokens_max.value_or(models::kOutputTokensDefault);
  return std::min(facts.output_tokens_max.value_or(model_most), model_most);
}

}  // namespace

CallCost::CallCost(const ModelRequest& request, std::string_view model, const budget::Price* price,
                   Maker maker)
    : request_(request),
      price_(price),
      may_hide_(
          maker == Maker::kProvider &&
          (!request.facts.stream || models::may_think_unseen(model, request.facts.asks_to_think))) {
  const models::RequestFacts& facts = request.facts;
  most_.output = output_most(facts, price) * std::max<std::int64_t>(1, facts.choices);
  most_.searches = facts.may_search ? kSearchesWhenUnknown : 0;
  // All of it may be written to a cache, unasked with some providers.
  const bool writing_costs = price != nullptr && price->tokens.cache_write > price->tokens.input;
  auto& prompt = facts.caches_for_an_hour ? most_.cache_write_hour
                 : writing_costs          ? most_.cache_write
                                          : most_.input;
  prompt = prompt_most();
}

// No more than the model has room for: what is longer is refused there, and costs nothing.
std::int64_t CallCost::prompt_most() const {
  const models::RequestFacts& facts = request_.facts;
  const std::int64_t here = models::most_prompt_tokens(facts, request_.body_bytes);
  const std::int64_t room = price_ != nullptr ? price_->context_tokens : 0;
  if (room == 0) return here;
  // A price for what is longer than the window says that the window can be larger than that.
  const bool can_grow = price_->long_prompt && price_->long_prompt->above >= room;
  if (facts.has_remote_prompt) return can_grow ? std::max(here, room) : room;
  return can_grow ? here : std::min(here, room);
}

models::Usage CallCost::seen(models::Usage usage, std::size_t output_bytes) const {
  if (usage.prompt() == 0)
    usage.input =
        std::min(models::likely_prompt_tokens(request_.facts, request_.body_bytes), most_.prompt());
  if (output_bytes > 0)
    usage.output = std::max(usage.output, models::estimate_tokens(output_bytes));
  return usage;
}

models::Usage CallCost::broken_off(models::Usage usage, std::size_t output_bytes,
                                   Duration after) const {
  usage = seen(std::move(usage), output_bytes);
  if (!may_hide_) return usage;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(after).count();
  constexpr std::int64_t kSecond = 1'000;
  const std::int64_t made = ms * kTokensPerSecondMost / kSecond;
  usage.output = std::max(usage.output, std::min(made, most_.output));
  return usage;
}

}  // namespace pons::gateway
