#pragma once

#include <string>

#include "pons/base/result.h"
#include "pons/config/config.h"
#include "pons/supervisor/supervisor.h"

namespace pons::cli {

// The error of the first agent of the configuration that makes no sense, with the file.
Result<void> check_agents(const config::LoadedConfig& loaded);

// What the brain is to know of the configuration.
Result<void> prepare_agents(const config::LoadedConfig& loaded, supervisor::ForRoles& for_roles);

// Without any provider of its own, a configuration gets the one whose key the environment has.
void add_provider_of_environment(config::Config& config);

// Recipes of harnesses that the configuration has, as `harness::read_recipes` wants them.
std::string own_recipes(const config::Config& config);

}  // namespace pons::cli
