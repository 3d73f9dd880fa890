#include "pons/supervisor/self_test_json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace pons::supervisor {

Json self_test_json(roles::Role role, const std::vector<roles::AttemptResult>& results) {
  Json attempts = Json::array();
  for (const auto& result : results)
    attempts.push_back({{"name", result.name},
                        {"promise", result.promise},
                        {"answer", result.answer()},
                        {"holds", result.holds}});
  return {{"role", roles::name_of(role)},
          {"holds", std::ranges::all_of(results, &roles::AttemptResult::holds)},
          {"attempts", std::move(attempts)}};
}

}  // namespace pons::supervisor
