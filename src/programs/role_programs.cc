#include "role_programs.h"

#include <unistd.h>

#include "pons/base/log.h"
#include "pons/brain/brain.h"
#include "pons/egress/egress.h"
#include "pons/front/front.h"
#include "pons/gateway/gateway.h"
#include "pons/roles/start.h"
#include "pons/spawner/spawner.h"
#include "pons/warden/warden.h"

namespace pons::programs {

int run_role_program() {
  setsid();  // Ctrl-C is for the supervisor, who ends the roles in order
  auto start = roles::read_role_start();
  if (!start) {
    LOG_ERROR("roles are started by `pons up`, not by hand", {"error", start.error()});
    return 1;
  }
  configure_log({.level = start->log_level,
                 .format = start->log_format,
                 .process = std::string(roles::name_of(start->role)),
                 .color = start->log_color});
  switch (start->role) {
    case roles::Role::kFront:
      return front::run_front(std::move(*start));
    case roles::Role::kBrain:
      return brain::run_brain(std::move(*start));
    case roles::Role::kGateway:
      return gateway::run_gateway(std::move(*start));
    case roles::Role::kEgress:
      return egress::run_egress(std::move(*start));
    case roles::Role::kWarden:
      return warden::run_warden(std::move(*start));
    case roles::Role::kSpawner:
      return spawner::run_spawner(std::move(*start));
  }
  return 1;
}

}  // namespace pons::programs
