#pragma once

#include "pons/managed/fields.h"

namespace pons::managed {

// One place and no other, whoever reads it: absolute, without ".", ".." and empty segments; and
// none of the kernel's, or of ours.
Result<void> check_mount_path(const JsonPlace& place, std::string_view path);

// The same place, or one below the other: both cannot be files.
bool are_in_each_others_way(std::string_view one, std::string_view other);

}  // namespace pons::managed
