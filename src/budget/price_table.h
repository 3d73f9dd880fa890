#pragma once

#include <map>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/budget/prices.h"

namespace pons::budget {

// The file data/prices.json, as it was at build time.
std::string_view embedded_prices();

// {"models": {NAME: {"input": "3", "output": "15", "cache_read": "0.3", "cache_write": "3.75",
// "cache_write_hour": "6", "long": {"above": 200000, "input": …}, "context": 200000,
// "output_max": 64000, "provider": "…", "source": "…", "date": "…"}}}. Only input and output must
// be there: a cache that is not named costs what input does, so that nothing is ever free by
// omission.
Result<void> read_price_table(std::string_view json,
                              std::map<std::string, Price, std::less<>>& into);
Result<Price> read_price(std::string_view json);

}  // namespace pons::budget
