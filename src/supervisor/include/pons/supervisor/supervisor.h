#pragma once

#include <map>
#include <string>

#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/config/config.h"
#include "pons/linux/fd.h"

namespace pons::supervisor {

// What roles are to know and may not read themselves, by name.
struct ForRoles {
  std::map<std::string, std::string> brain = {};
  std::map<std::string, std::string> egress = {};
  std::map<std::string, std::string> gateway = {};
  Secret otlp_headers = {};       // NAME=VALUE,… for the collector of traces; the same way
  Secret database_password = {};  // likewise
  Secret model_keys = {};         // {"provider": ["key", …]}; the gateway gets it in a memory file
};

// Runs Pons in the foreground until it is told to stop (SIGTERM, SIGINT, `pons down`): opens the
// public listener, makes the sockets between the roles, starts and restarts the roles, keeps their
// descriptors, drains them at the end. Returns when the last role has ended; an error when it could
// not start.
Result<void> run_supervisor(const config::Config& config, const ForRoles& for_roles = {});

// Keeps any Pons from starting on the state directory, which is made if it is missing, for as long
// as the descriptor is open: for work on its files. The error names the Pons that is running there.
Result<linux::UniqueFd> hold_state_dir(const std::string& state_dir);

// Where a process of a running Pons listens for its operator: "supervisor" or a role's name.
std::string control_socket_path(const std::string& state_dir, std::string_view process);

}  // namespace pons::supervisor
