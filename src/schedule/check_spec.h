#pragma once

#include "pons/base/result.h"
#include "pons/schedule/deployment.h"
#include "pons/schedule/zones.h"

namespace pons::schedule {

// kInvalid names the field and says what is wrong with it.
Result<void> check_spec(const DeploymentSpec& spec, Zones& zones);

// Out of the JSON of a reference to an agent that was checked.
Result<std::string> agent_id_of(const std::string& agent);

}  // namespace pons::schedule
