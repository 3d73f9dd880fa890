#include "price_table.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"

// NOLINTBEGIN(readability-identifier-naming): labels of data.S
extern "C" {
extern const char pons_budget_prices_begin[];
extern const char pons_budget_prices_end[];
}
// NOLINTEND(readability-identifier-naming)

namespace pons::budget {

namespace {

constexpr JsonLimits kJsonLimits{.depth = 8, .bytes = 4ULL << 20};
constexpr std::size_t kModelsMax = 10'000;
constexpr std::size_t kTextMax = 256;
constexpr std::int64_t kNano = 1'000'000'000;
constexpr std::size_t kNanoDigits = 9;
constexpr std::int64_t kSearch = 10 * kNano;  // a thousand of them, at both of the large providers
constexpr std::uint64_t kDollarsMax = 100'000;  // per million tokens

Error wrong(std::string_view where, std::string_view what) {
  return make_error(ErrorCode::kInvalid, "read prices", fmt::format("{}: {}", where, what));
}

Result<std::int64_t> read_dollars(const Json& value, std::string_view where,
                                  std::string_view unit = "US dollars per million tokens",
                                  std::uint64_t most = kDollarsMax) {
  const Error refusal = wrong(
      where, fmt::format("a price is decimal text in {}, such as \"0.075\", with at most nine "
                         "decimals and at most {}",
                         unit, most));
  if (!value.is_string()) return refusal;
  const std::string_view text = value.get_ref<const std::string&>();
  const std::size_t point = text.find('.');
  const auto whole = parse_decimal(text.substr(0, point));
  if (!whole || *whole > most) return refusal;
  auto nano = static_cast<std::int64_t>(*whole) * kNano;
  if (point == std::string_view::npos) return nano;
  std::string decimals(text.substr(point + 1));
  if (decimals.empty() || decimals.size() > kNanoDigits) return refusal;
  decimals.resize(kNanoDigits, '0');
  const auto fraction = parse_decimal(decimals);
  if (!fraction) return refusal;
  nano += static_cast<std::int64_t>(*fraction);
  if (nano > static_cast<std::int64_t>(most) * kNano) return refusal;
  return nano;
}

Result<std::int64_t> read_count(const Json& value, std::string_view where) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{kTokensMax})
    return wrong(where, "a number of tokens is wanted");
  return value.get<std::int64_t>();
}

Result<std::string> read_text(const Json& value, std::string_view where) {
  if (!value.is_string() || value.get_ref<const std::string&>().size() > kTextMax)
    return wrong(where, "text of at most 256 bytes is wanted");
  return value.get<std::string>();
}

Result<TokenPrices> read_tokens(const Json& entry, std::string_view where) {
  const auto find = [&](const char* name,
                        std::optional<std::int64_t> missing) -> Result<std::int64_t> {
    const auto found = entry.find(name);
    const std::string place = fmt::format("{}.{}", where, name);
    if (found != entry.end()) return read_dollars(*found, place);
    if (missing) return *missing;
    return wrong(place, "it must be there: nothing is free by omission");
  };
  TokenPrices tokens;
  tokens.input = TRY(find("input", std::nullopt));
  tokens.output = TRY(find("output", std::nullopt));
  tokens.cache_read = TRY(find("cache_read", tokens.input));
  tokens.cache_write = TRY(find("cache_write", tokens.input));
  tokens.cache_write_hour = TRY(find("cache_write_hour", tokens.cache_write));
  return tokens;
}

constexpr std::array<std::string_view, 12> kNames = {
    "input", "output",  "cache_read", "cache_write", "cache_write_hour",
    "long",  "context", "output_max", "provider",    "source",
    "date",  "search"};
constexpr std::array<std::string_view, 6> kLongNames = {
    "above", "input", "output", "cache_read", "cache_write", "cache_write_hour"};

Result<void> expect_object(const Json& value, std::string_view where,
                           std::span<const std::string_view> names) {
  if (!value.is_object()) return wrong(where, "an object is wanted");
  for (const auto& [name, ignored] : value.items())
    if (std::ranges::find(names, name) == names.end())
      return wrong(where, fmt::format("\"{}\" is not known here; there are {}", name.substr(0, 64),
                                      fmt::join(names, ", ")));
  return {};
}

Result<Price> price_of(const Json& entry, std::string_view where) {
  TRY_VOID(expect_object(entry, where, kNames));
  Price price{.tokens = TRY(read_tokens(entry, where)), .search = kSearch};
  for (const auto& [name, value] : entry.items()) {
    const std::string place = fmt::format("{}.{}", where, name);
    if (name == "search") price.search = TRY(read_dollars(value, place));
    if (name == "context") price.context_tokens = TRY(read_count(value, place));
    if (name == "output_max") price.output_tokens_max = TRY(read_count(value, place));
    if (name == "provider") price.provider = TRY(read_text(value, place));
    if (name == "source") price.source = TRY(read_text(value, place));
    if (name == "date") price.date = TRY(read_text(value, place));
    if (name != "long") continue;
    TRY_VOID(expect_object(value, place, kLongNames));
    if (!value.contains("above")) return wrong(place, "\"above\" must say from where on it holds");
    price.long_prompt = Price::Long{.above = TRY(read_count(value["above"], place + ".above")),
                                    .tokens = TRY(read_tokens(value, place))};
  }
  return price;
}

}  // namespace

std::string_view embedded_prices() {
  return {pons_budget_prices_begin, pons_budget_prices_end};
}

Result<void> read_price_table(std::string_view json,
                              std::map<std::string, Price, std::less<>>& into,
                              std::int64_t& sandbox_second) {
  constexpr std::array<std::string_view, 3> kTop = {"unit", "models", "sandbox_second"};
  constexpr std::uint64_t kSandboxSecondMax = 1;
  const Json table = TRY(parse_json(json, kJsonLimits));
  TRY_VOID(expect_object(table, "prices", kTop));
  if (const auto price = table.find("sandbox_second"); price != table.end()) {
    sandbox_second =
        TRY(read_dollars(*price, "sandbox_second", "US dollars per second", kSandboxSecondMax));
    if (!table.contains("models")) return {};
  }
  const auto models = table.find("models");
  if (models == table.end() || !models->is_object() || models->size() > kModelsMax)
    return wrong("models", "an object of at most 10000 models is wanted");
  for (const auto& [name, entry] : models->items()) {
    if (name.empty() || name.size() > kTextMax)
      return wrong("models", "a model's name has 1 to 256 bytes");
    into.insert_or_assign(name, TRY(price_of(entry, fmt::format("models.{}", name))));
  }
  return {};
}

Result<Price> read_price(std::string_view json) {
  const Json entry = TRY(parse_json(json, kJsonLimits));
  return price_of(entry, "price");
}

}  // namespace pons::budget
