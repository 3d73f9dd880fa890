#pragma once

#include <string>

#include "pons/roles/start.h"

namespace pons::gateway {

// Keys for models, calls and usage.
std::string store_path(const std::string& state_dir);

// The role's whole life; returns the process's exit code.
int run_gateway(roles::RoleStart start);

}  // namespace pons::gateway
