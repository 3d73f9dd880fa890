#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "pons/roles/confinement.h"
#include "pons/roles/profile.h"

// Takes the place of the function of the same name in a program that is Pons in all else. What it
// leaves out is compiled in: the released program has no switch for it.
namespace pons::roles {

#ifdef PONS_LEAVE_OUT

bool is_step_left_out(std::string_view step) {
  return step == PONS_LEAVE_OUT;
}

#else

// The brain dies in the middle of its start. The step after the change of user tells it by its uid.
bool is_step_left_out(std::string_view step) {
  if (step == "memory" && getuid() == uid_of(Role::kBrain)) {
    std::fputs("the brain has no memory\n", stderr);
    std::abort();
  }
  return false;
}

#endif

}  // namespace pons::roles
