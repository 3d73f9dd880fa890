#include "pons/front/front.h"

#include "door.h"
#include "metrics_door.h"
#include "pons/base/log.h"

namespace pons::front {

int run_front(roles::RoleStart start) {
  auto runtime = supervisor::RoleRuntime::create(std::move(start));
  if (!runtime) {
    LOG_ERROR("cannot start", {"error", runtime.error()});
    return 1;
  }
  PublicDoor door(**runtime);
  if (auto opened = door.open(); !opened) {
    LOG_ERROR("cannot open the public listener", {"error", opened.error()});
    return 1;
  }
  MetricsDoor metrics(**runtime);
  if (auto opened = metrics.open(); !opened) {
    LOG_ERROR("cannot open the listener for metrics", {"error", opened.error()});
    return 1;
  }
  return (*runtime)->run();
}

}  // namespace pons::front
