#include "pons/base/version.h"

namespace pons {

std::string_view version() {
  return PONS_VERSION;
}

}  // namespace pons
