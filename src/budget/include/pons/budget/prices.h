#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/models/answer.h"

// What models cost. Money is counted in nano-dollars; a price is nano-dollars per million tokens,
// so that a decimal of nine places is kept exactly. In files a price is decimal text: US dollars
// per million tokens ("0.075"), of searches US dollars per thousand.

namespace pons::budget {

struct TokenPrices {
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::int64_t cache_read = 0;
  std::int64_t cache_write = 0;
  std::int64_t cache_write_hour = 0;
  bool operator==(const TokenPrices&) const = default;
};

struct Price {
  // For a prompt of more than `above` tokens, all tokens of the call.
  struct Long {
    std::int64_t above = 0;
    TokenPrices tokens;
    bool operator==(const Long&) const = default;
  };

  TokenPrices tokens;
  std::int64_t search = 0;  // nano-dollars for a thousand searches of the web
  std::optional<Long> long_prompt = std::nullopt;
  std::int64_t context_tokens = 0;  // of the prompt, at most; 0: not known
  std::int64_t output_tokens_max = 0;
  std::string provider = {};
  std::string source = {};  // who says so, and when
  std::string date = {};
  bool operator==(const Price&) const = default;
};

// What a provider reports is not believed beyond this, for each kind of token; nor below zero.
inline constexpr std::int64_t kTokensMax = 1'000'000'000;
inline constexpr std::int64_t kSearchesMax = 10'000;
models::Usage within_bounds(models::Usage usage);

// In nano-dollars, rounded up; `percent` of the price.
std::int64_t cost(const Price& price, const models::Usage& usage, std::int64_t percent = 100);

class Prices {
 public:
  // The table of this program, and over it `overrides`: JSON of the same shape, empty for none. A
  // model in it replaces the whole entry. `unknown` is what models cost that neither has; without
  // it they are refused.
  static Result<Prices> load(std::string_view overrides = {},
                             std::optional<Price> unknown = std::nullopt);
  // One entry: {"input": "3", "output": "15", …}.
  static Result<Price> parse_price(std::string_view json);

  // By its exact name; else without what providers and routers add: a date at its end, names with
  // slashes before it. kNotFound: it has no price, which is not the same as being free.
  Result<const Price*> find(std::string_view model) const;
  const std::map<std::string, Price, std::less<>>& all() const { return models_; }
  // In nano-dollars; 0 unless the overrides name one.
  std::int64_t sandbox_second_nano() const { return sandbox_second_nano_; }

 private:
  std::map<std::string, Price, std::less<>> models_;
  std::int64_t sandbox_second_nano_ = 0;
  std::optional<Price> unknown_;
};

}  // namespace pons::budget
