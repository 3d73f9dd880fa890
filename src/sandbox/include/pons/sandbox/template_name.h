#pragma once

#include <string_view>
#include <vector>

namespace pons::sandbox {

// A sandbox may start from several templates at once: of "A+B" the layers of B lie above those of
// A.
inline constexpr char kTemplateStackMark = '+';

// What stands between the marks, lowest first. A name without a mark is its own only part.
std::vector<std::string_view> template_parts(std::string_view name);

}  // namespace pons::sandbox
