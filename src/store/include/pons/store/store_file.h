#pragma once

#include <sys/types.h>

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

// Puts a copy of the backup `from` in the place of the store at `to`, which nobody may have open;
// it belongs to `owner` then. What was there is kept under another name, which is the answer; empty
// when there was nothing. A failure leaves the store as it was.
Result<std::string> restore_store_file(const std::string& from, const std::string& to, uid_t owner);

}  // namespace pons::store
