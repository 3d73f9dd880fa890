#pragma once

#include "command.h"

namespace pons::cli {

void add_migrate(CLI::App& app, Common& common, int& exit_code);

}  // namespace pons::cli
