#include "pons/audit/decision.h"

#include <algorithm>
#include <array>

namespace pons::audit {

namespace {

constexpr std::array<std::string_view, kVerdicts> kNames = {"allow", "swap", "inert", "scrub",
                                                            "block", "cut",  "drop"};

}  // namespace

std::string_view to_string(Verdict verdict) {
  return kNames.at(static_cast<std::size_t>(verdict));
}

std::optional<Verdict> parse_verdict(std::string_view text) {
  const auto known = std::ranges::find(kNames, text);
  if (known == kNames.end()) return std::nullopt;
  return static_cast<Verdict>(known - kNames.begin());
}

}  // namespace pons::audit
