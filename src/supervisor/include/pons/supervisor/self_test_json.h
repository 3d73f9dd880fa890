#pragma once

#include <vector>

#include "pons/base/json.h"
#include "pons/roles/attempts.h"

namespace pons::supervisor {

// {"role":…,"holds":…,"attempts":[{"name","promise","answer","holds"}]}
Json self_test_json(roles::Role role, const std::vector<roles::AttemptResult>& results);

}  // namespace pons::supervisor
