#pragma once

#include "call.h"

namespace pons::e2b {

// GET /metrics: what the sandbox uses and may use.
Task<> answer_metrics(Call& call);
// GET /envs: the variables that its processes get.
Task<> answer_environment(Call& call);

}  // namespace pons::e2b
