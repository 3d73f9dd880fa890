#include "embedded_data.h"

extern "C" {
extern const char pons_egress_services_begin[];
extern const char pons_egress_services_end[];
extern const char pons_egress_packages_begin[];
extern const char pons_egress_packages_end[];
extern const char pons_egress_shared_suffixes_begin[];
extern const char pons_egress_shared_suffixes_end[];
}

namespace pons::egress {

std::string_view services_json() {
  return {pons_egress_services_begin, pons_egress_services_end};
}

std::string_view packages_json() {
  return {pons_egress_packages_begin, pons_egress_packages_end};
}

std::string_view shared_suffixes_json() {
  return {pons_egress_shared_suffixes_begin, pons_egress_shared_suffixes_end};
}

}  // namespace pons::egress
