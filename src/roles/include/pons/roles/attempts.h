#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pons/roles/profile.h"

namespace pons::roles {

// What an attempt is made on: the places where the forbidden things are.
struct SelfTestContext {
  std::string state_dir;
  pid_t supervisor;
};

// One thing that a role tries, and how the kernel must answer.
struct Attempt {
  std::string_view name;     // "execve"
  std::string_view promise;  // "cannot start a program"
  // Tries it in a form that does no harm even if it works. 0: it worked; otherwise errno.
  int (*attempt)(const Profile&, const SelfTestContext&);
  enum class Must : std::uint8_t { kFail, kWork } must = Must::kFail;
};

// The attempts that apply to this profile, in a fixed order: a result can be named by its index.
std::vector<const Attempt*> attempts_for(const Profile& profile);

struct AttemptResult {
  std::string name;
  std::string promise;
  int os_error = 0;
  bool holds = false;
  std::string answer() const;  // what the kernel said, for people
};

AttemptResult judge(const Attempt& attempt, int os_error);

// Tries everything, inside the calling process.
std::vector<AttemptResult> run_self_test(const Profile& profile, const SelfTestContext& context);

}  // namespace pons::roles
