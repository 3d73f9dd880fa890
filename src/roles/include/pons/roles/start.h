#pragma once

#include <map>
#include <string>
#include <string_view>

#include "pons/base/log.h"
#include "pons/base/result.h"
#include "pons/linux/fd.h"
#include "pons/roles/confinement.h"
#include "pons/roles/profile.h"

namespace pons::roles {

// What the supervisor hands to a role it starts: settings as text, and named descriptors. Travels
// as one sealed memory file and inherited descriptors, so nothing of it shows in arguments or the
// environment.
//
// Descriptors by name: "keeper" (line to the supervisor), "control" (the role's own listening
// socket), "public", "tls" and "metrics" (front's listener, certificate and listener for programs
// that watch), "models", "model_keys" and "otlp_headers" (the gateway's listener, its providers'
// keys, and what a collector of traces wants to see), "dial:ROLE" (to call that role), "from:ROLE"
// (calls from that role).
struct RoleStart {
  Role role = Role::kFront;
  ConfinementContext confinement;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kJson;
  bool log_color = false;
  int drain_seconds = 10;
  std::map<std::string, std::string> values;  // what only some roles need
  std::map<std::string, linux::UniqueFd, std::less<>> descriptors;

  // The named descriptor, owned by the caller from now on. Missing is a bug of the supervisor.
  linux::UniqueFd take(std::string_view name);
  // All whose name begins with `prefix`, keyed by the rest of the name.
  std::map<std::string, linux::UniqueFd, std::less<>> take_all(std::string_view prefix);
};

inline constexpr int kStartDescriptor = 3;       // the memory file
inline constexpr int kFirstNamedDescriptor = 4;  // the named ones, in the order of the names

// The memory file for a role whose named descriptors will stand at kFirstNamedDescriptor and after.
Result<linux::UniqueFd> write_role_start(const RoleStart& start);
// In the role, once: adopts the descriptors.
Result<RoleStart> read_role_start();

}  // namespace pons::roles
