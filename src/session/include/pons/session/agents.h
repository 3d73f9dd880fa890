#pragma once

#include <map>
#include <string>

#include "pons/session/event.h"

namespace pons::session {

// The agents of a configuration, by name: JSON text each. There is always one named "default",
// which asks `model`, by that harness, unless it says otherwise; others begin as it does. An error
// names the place.
Result<std::map<std::string, AgentSpec>> read_agents(
    const std::map<std::string, std::string>& documents, const std::string& model,
    const std::string& harness = "native");

}  // namespace pons::session
