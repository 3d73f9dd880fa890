#pragma once

#include <string_view>

namespace pons {

std::string_view version();

}  // namespace pons
