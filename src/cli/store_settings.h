#pragma once

#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/config/config.h"
#include "pons/supervisor/supervisor.h"

namespace pons::cli {

// The error when the database's URL is none that can be used, with the file.
Result<void> check_store(const config::LoadedConfig& loaded);

// The database's, from the file or the variable that is named; empty when none is.
Result<Secret> read_password(const config::StoreConfig& store);

// What brain and gateway are to know of the database; its password is for the gateway only.
Result<void> prepare_store(const config::LoadedConfig& loaded, supervisor::ForRoles& for_roles);

}  // namespace pons::cli
