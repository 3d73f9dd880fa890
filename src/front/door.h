#pragma once

#include <string>

#include "access_log.h"
#include "admission.h"
#include "keys.h"
#include "mcp_door.h"
#include "model_door.h"
#include "origins.h"
#include "pons/e2b/control_plane.h"
#include "pons/e2b/data_plane.h"
#include "pons/http/server.h"
#include "pons/sandbox/remote.h"
#include "pons/supervisor/role_runtime.h"
#include "role_line.h"
#include "roles_behind.h"
#include "session_door.h"

namespace pons::front {

class RecordedExchange;

// The public listener and everything that is answered there.
class PublicDoor {
 public:
  explicit PublicDoor(supervisor::RoleRuntime& runtime);

  Result<void> open();

 private:
  http::ServerLimits limits() const;
  Task<> handle(http::Exchange& exchange);
  http::Handler make_own_routes();
  Task<> answer_status(http::Exchange& exchange);
  Task<bool> is_well(roles::Role role);
  Task<> handle_for_sandbox(RecordedExchange& exchange);
  Result<std::shared_ptr<http::TlsContext>> take_certificate();
  Task<> replace_certificate(http::Exchange& exchange);

  supervisor::RoleRuntime& runtime_;
  std::uint64_t body_bytes_max_;  // of what does not go into a sandbox
  Keys keys_;
  Admission admission_;
  RolesBehind behind_;
  AccessLog log_;
  Origins origins_;
  RoleLine warden_;
  RoleLine gateway_;
  RoleLine brain_;
  ModelDoor models_;
  SessionDoor sessions_;
  McpDoor mcp_;
  sandbox::RemoteProvider sandboxes_;  // short questions; always get through
  sandbox::RemoteProvider streams_;    // what clients do in sandboxes, as long as they like
  std::size_t for_sandboxes_max_;
  std::size_t for_sandboxes_ = 0;  // requests under way
  e2b::Directory directory_;
  e2b::ControlPlane control_;
  e2b::DataPlane data_;
  http::Handler own_;
  http::Server server_;
  bool is_encrypted_ = false;
  linux::TaskGroup tasks_;  // last: its tasks use all of the above
};

}  // namespace pons::front
