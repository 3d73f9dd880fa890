#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pons::cli {

struct DiffLimits {
  std::size_t lines_max = 60;
  std::size_t line_bytes_max = 200;
};

// How two texts differ, as `diff -u` tells it, with three lines around. As long as the limits
// allow, and then how much more there is; of long texts, only what follows the first difference.
// Empty: they are the same.
std::string unified_diff(std::string_view before, std::string_view after, DiffLimits limits = {});

}  // namespace pons::cli
