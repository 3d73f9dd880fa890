#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "pons/linux/fd.h"
#include "pons/roles/confinement.h"
#include "pons/roles/profile.h"

// Pons, but its brain does not get through its start.
namespace pons::roles {

namespace {

[[maybe_unused]] void die() {
  std::fputs("the brain has no memory\n", stderr);
  std::abort();
}

// The first time only: the file in the role's state directory tells the next process.
[[maybe_unused]] void sleep_once() {
  const linux::UniqueFd mark(open("slept", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  while (mark) pause();
}

}  // namespace

// The step after the change of user tells the brain by its uid.
bool is_step_left_out(std::string_view step) {
  if (step == "memory" && getuid() == uid_of(Role::kBrain)) PONS_ILLNESS();
  return false;
}

}  // namespace pons::roles
