#include "pons/cell/image.h"

// NOLINTBEGIN(readability-identifier-naming): symbols of image.S
extern "C" {
extern const std::byte pons_cell_image_begin[];
extern const std::byte pons_cell_image_end[];
}
// NOLINTEND(readability-identifier-naming)

namespace pons::cell {

std::span<const std::byte> cell_image() {
  return {pons_cell_image_begin, pons_cell_image_end};
}

}  // namespace pons::cell
