#include <string_view>

#include "pons/roles/confinement.h"

namespace pons::roles {

// Takes the place of the function of the same name in a program that is Pons in all else.
bool is_step_left_out(std::string_view step) {
  return step == PONS_LEAVE_OUT;
}

}  // namespace pons::roles
