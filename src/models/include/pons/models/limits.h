#pragma once

#include <cstddef>

namespace pons::models {

// Of a request to a model. Providers take no more either.
inline constexpr std::size_t kRequestBytesMax = std::size_t{32} << 20;

}  // namespace pons::models
