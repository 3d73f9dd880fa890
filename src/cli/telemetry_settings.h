#pragma once

#include "pons/base/result.h"
#include "pons/config/config.h"
#include "pons/supervisor/supervisor.h"

namespace pons::cli {

// The error when the endpoint for traces is none that can be reached, with the file.
Result<void> check_telemetry(const config::LoadedConfig& loaded);

// What brain and gateway are to know of where traces go, and the header fields for the collector.
Result<void> prepare_telemetry(const config::LoadedConfig& loaded, supervisor::ForRoles& for_roles);

}  // namespace pons::cli
