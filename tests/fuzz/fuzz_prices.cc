// Price overrides and limits: refused, or understood so that nothing costs less than nothing.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "pons/budget/limits.h"
#include "price_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pons::budget;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::map<std::string, Price, std::less<>> models;
  std::int64_t sandbox_second = 0;
  if (read_price_table(text, models, sandbox_second))
    for (const auto& [name, price] : models) {
      const std::int64_t some = cost(price, {1, 2, 3, 4, 5, 6});
      const std::int64_t most =
          cost(price, {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX});
      if (some < 0 || most < some) std::abort();
    }
  if (sandbox_second < 0) std::abort();
  if (const auto limits = parse_limits(text);
      limits && *parse_limits(limits_text(*limits)) != *limits)
    std::abort();
  return 0;
}
