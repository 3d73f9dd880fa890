#pragma once

#include <string_view>

// By what cells and jobs of guests are known to be theirs, also those of a brain before this one.

namespace pons::guest {

inline constexpr std::string_view kCellPrefix = "hx-";
inline constexpr std::string_view kJobPrefix = "harness-";
inline constexpr std::string_view kGuestUser = "user";
inline constexpr const char* kSessionLabel = "pons.session";

}  // namespace pons::guest
