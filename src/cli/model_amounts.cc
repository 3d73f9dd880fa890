#include "model_amounts.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pons::cli {

namespace {

constexpr double kNanoPerDollar = 1e9;
constexpr double kAmountMax = 9e18;

struct Unit {
  std::string_view word;
  const char* what;
  double scale;
};
constexpr Unit kUnits[] = {{"usd", "money", kNanoPerDollar},
                           {"tokens", "tokens", 1},
                           {"requests", "requests", 1},
                           {"sandbox_seconds", "sandbox_seconds", 1}};

}  // namespace

Result<Json> parse_limit(std::string_view text) {
  const auto refuse = [&] {
    return make_error(ErrorCode::kInvalid, "read limit",
                      fmt::format("\"{}\" is no limit; write 5usd/day or 60requests/minute", text));
  };
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || !(number >= 0)) return refuse();
  const std::string_view rest = text.substr(static_cast<std::size_t>(read.ptr - text.data()));
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return refuse();
  for (const Unit& unit : kUnits) {
    if (rest.substr(0, slash) != unit.word) continue;
    const double amount = std::round(number * unit.scale);
    if (amount > kAmountMax) return refuse();
    return Json{{"what", unit.what},
                {"amount", static_cast<std::int64_t>(amount)},
                {"window", std::string(rest.substr(slash + 1))}};
  }
  return refuse();
}

std::string dollars(std::int64_t nano) {
  const double amount = static_cast<double>(nano) / kNanoPerDollar;
  // Small sums are what single calls cost.
  return amount != 0 && std::abs(amount) < 0.1 ? fmt::format("${:.6f}", amount)
                                               : fmt::format("${:.2f}", amount);
}

std::string amount_text(std::string_view what, std::int64_t amount) {
  if (what == "money") return dollars(amount);
  return fmt::format("{} {}", amount, what == "sandbox_seconds" ? "s" : what);
}

}  // namespace pons::cli
