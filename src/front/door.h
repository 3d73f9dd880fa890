#pragma once

#include <string>

#include "keys.h"
#include "pons/e2b/control_plane.h"
#include "pons/e2b/data_plane.h"
#include "pons/http/server.h"
#include "pons/sandbox/remote.h"
#include "pons/supervisor/role_runtime.h"
#include "roles_behind.h"

namespace pons::front {

// The public listener and everything that is answered there.
class PublicDoor {
 public:
  explicit PublicDoor(supervisor::RoleRuntime& runtime);

  Result<void> open();

 private:
  Task<> handle(http::Exchange& exchange);
  http::Handler make_own_routes();
  Task<> answer_status(http::Exchange& exchange);
  Task<bool> is_well(roles::Role role);

  supervisor::RoleRuntime& runtime_;
  std::uint64_t body_bytes_max_;  // of what does not go into a sandbox
  Keys keys_;
  RolesBehind behind_;
  sandbox::RemoteProvider sandboxes_;
  e2b::Directory directory_;
  e2b::ControlPlane control_;
  e2b::DataPlane data_;
  http::Handler own_;
  http::Server server_;
};

}  // namespace pons::front
