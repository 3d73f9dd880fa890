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
// omission. "sandbox_second": "0.00001", beside or in place of the models: dollars for a second of
// a sandbox; where it is not there, `sandbox_second` stays what it was.
Result<void> read_price_table(std::string_view json,
                              std::map<std::string, Price, std::less<>>& into,
                              std::int64_t& sandbox_second);
Result<Price> read_price(std::string_view json);

}  // namespace pons::budget
