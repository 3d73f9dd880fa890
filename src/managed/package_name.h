#pragma once

#include <string_view>

namespace pons::managed {

// The longest text that can be a package with its version.
inline constexpr std::size_t kPackageBytesMax = 200;

}  // namespace pons::managed
