#include "pons/cell/image.h"

extern "C" {
extern const std::byte pons_cell_image_begin[];
extern const std::byte pons_cell_image_end[];
}

namespace pons::cell {

std::span<const std::byte> cell_image() {
  return {pons_cell_image_begin, pons_cell_image_end};
}

}  // namespace pons::cell
