#pragma once

#include <cstddef>
#include <span>

namespace pons::cell {

// The cell's program: a static executable, built into this one.
std::span<const std::byte> cell_image();

}  // namespace pons::cell
