#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/roles/profile.h"

namespace pons::roles {

enum class LandlockNeed : std::uint8_t { kRequired, kBestEffort };

struct ConfinementContext {
  std::string state_dir;  // of Pons; the role's own is the folder of its name inside
  pid_t supervisor;
  LandlockNeed landlock = LandlockNeed::kRequired;
  // The role is root of a user namespace of its own, and of nothing else on this host.
  bool own_user_namespace = false;
};

struct ConfinementStep {
  std::string_view name;
  bool done = false;
  std::string note;  // what the kernel could not give, if anything
};

// Takes from this process everything its profile does not name, in the order of the steps, and
// cannot be undone. An error means that the process must end: it may be half confined.
Result<std::vector<ConfinementStep>> confine(const Profile& profile,
                                             const ConfinementContext& context);

// True when a step is to be left out. Always false in Pons; a test program replaces this function
// to prove that the self-tests notice.
bool is_step_left_out(std::string_view step);

}  // namespace pons::roles
