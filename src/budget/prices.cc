#include "pons/budget/prices.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "price_table.h"

namespace pons::budget {

namespace {

bool all_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// "-20250929" or "-2025-09-29".
std::string_view without_date(std::string_view model) {
  constexpr std::size_t kShort = 9;
  constexpr std::size_t kLong = 11;
  if (model.size() > kShort) {
    const std::string_view end = model.substr(model.size() - kShort);
    if (end[0] == '-' && end[1] == '2' && all_digits(end.substr(1)))
      return model.substr(0, model.size() - kShort);
  }
  if (model.size() > kLong) {
    const std::string_view end = model.substr(model.size() - kLong);
    if (end[0] == '-' && end[1] == '2' && end[5] == '-' && end[8] == '-' &&
        all_digits(end.substr(1, 4)) && all_digits(end.substr(6, 2)) && all_digits(end.substr(9)))
      return model.substr(0, model.size() - kLong);
  }
  return model;
}

}  // namespace

models::Usage within_bounds(models::Usage usage) {
  for (std::int64_t* count : {&usage.input, &usage.cache_read, &usage.cache_write,
                              &usage.cache_write_hour, &usage.output})
    *count = std::clamp<std::int64_t>(*count, 0, kTokensMax);
  usage.searches = std::clamp<std::int64_t>(usage.searches, 0, kSearchesMax);
  if (usage.reasoning) usage.reasoning = std::clamp<std::int64_t>(*usage.reasoning, 0, kTokensMax);
  return usage;
}

std::int64_t cost(const Price& price, const models::Usage& reported, std::int64_t percent) {
  const models::Usage usage = within_bounds(reported);
  const bool is_long = price.long_prompt && usage.prompt() > price.long_prompt->above;
  const TokenPrices& tokens = is_long ? price.long_prompt->tokens : price.tokens;
  __extension__ using Wide = __int128;
  const Wide total = Wide{usage.input} * tokens.input + Wide{usage.output} * tokens.output +
                     Wide{usage.cache_read} * tokens.cache_read +
                     Wide{usage.cache_write} * tokens.cache_write +
                     Wide{usage.cache_write_hour} * tokens.cache_write_hour;
  constexpr Wide kHundredMillion = 100'000'000;
  constexpr Wide kThousand = 1'000;
  const Wide nano = (total * percent + kHundredMillion - 1) / kHundredMillion +
                    (Wide{usage.searches} * price.search + kThousand - 1) / kThousand;
  return static_cast<std::int64_t>(std::min<Wide>(nano, std::numeric_limits<std::int64_t>::max()));
}

Result<Prices> Prices::load(std::string_view overrides, std::optional<Price> unknown) {
  Prices prices;
  std::int64_t& sandbox_second = prices.sandbox_second_nano_;
  TRY_VOID(read_price_table(embedded_prices(), prices.models_, sandbox_second));
  if (!overrides.empty()) TRY_VOID(read_price_table(overrides, prices.models_, sandbox_second));
  prices.unknown_ = std::move(unknown);
  return prices;
}

Result<Price> Prices::parse_price(std::string_view json) {
  return read_price(json);
}

Result<const Price*> Prices::find(std::string_view model) const {
  for (std::string_view name = model;;) {
    for (const std::string_view candidate : {name, without_date(name)})
      if (const auto found = models_.find(candidate); found != models_.end()) return &found->second;
    const std::size_t slash = name.find('/');
    if (slash == std::string_view::npos) break;
    name.remove_prefix(slash + 1);
  }
  if (unknown_) return &*unknown_;
  return make_error(ErrorCode::kNotFound, "find price",
                    fmt::format("the model \"{}\" has no price; add it to the price overrides, or "
                                "set a price for unknown models",
                                model.substr(0, 128)));
}

}  // namespace pons::budget
