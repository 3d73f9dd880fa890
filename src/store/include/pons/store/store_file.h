#pragma once

#include <cstdint>
#include <string>

#include "pons/base/result.h"

namespace pons::store {

struct StoreFileInfo {
  std::uint64_t bytes = 0;
  std::int64_t migrations = 0;  // how many have made its tables
};

// Reads the whole of a store's file that nobody has open, such as a backup, and writes nothing. An
// error says what is wrong: damaged, another program's, made by a newer one.
Result<StoreFileInfo> check_store_file(const std::string& path);

}  // namespace pons::store
