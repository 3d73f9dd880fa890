#pragma once

#include <span>
#include <string>

#include "database.h"
#include "migrations.h"
#include "pons/base/result.h"

namespace pons::store {

// Makes the file where there is none, checks the one that is there, and brings its tables up to
// date.
Result<Database> open_or_create(const std::string& path, const std::string& shown,
                                std::span<const Migration> known);

}  // namespace pons::store
