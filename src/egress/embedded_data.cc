#include "embedded_data.h"

// NOLINTBEGIN(readability-identifier-naming): labels of data.S
extern "C" {
extern const char pons_egress_services_begin[];
extern const char pons_egress_services_end[];
extern const char pons_egress_packages_begin[];
extern const char pons_egress_packages_end[];
}
// NOLINTEND(readability-identifier-naming)

namespace pons::egress {

std::string_view services_json() {
  return {pons_egress_services_begin, pons_egress_services_end};
}

std::string_view packages_json() {
  return {pons_egress_packages_begin, pons_egress_packages_end};
}

}  // namespace pons::egress
