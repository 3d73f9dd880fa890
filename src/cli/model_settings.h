#pragma once

#include "pons/base/result.h"
#include "pons/config/config.h"
#include "pons/supervisor/supervisor.h"

namespace pons::cli {

// The error of the first provider or model of the configuration that makes no sense, with the file.
Result<void> check_models(const config::LoadedConfig& loaded);

// What the gateway is to know of the configuration, and the keys of its providers, read from where
// the configuration says they are. A key that is not there is a warning: its provider stays out.
Result<void> prepare_models(const config::LoadedConfig& loaded, supervisor::ForRoles& for_roles);

}  // namespace pons::cli
