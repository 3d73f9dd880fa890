#pragma once

#include <string>

#include "pons/http/server.h"
#include "pons/supervisor/role_runtime.h"

namespace pons::front {

// The listener for programs that watch: GET /metrics of all roles together, and nothing else. It
// asks for no key, so it is on loopback only, and what it shows names nobody.
class MetricsDoor {
 public:
  explicit MetricsDoor(supervisor::RoleRuntime& runtime);

  // Nothing, unless the supervisor has handed over a listener.
  Result<void> open();

 private:
  Task<> handle(http::Exchange& exchange);
  Task<> answer_page(http::Exchange& exchange);
  Task<std::string> collect();
  Task<> take_supervisor_page(http::Exchange& exchange);

  supervisor::RoleRuntime& runtime_;
  std::string supervisor_page_;  // the last one that was told
  std::string page_;             // of all, for those who ask within the same moment
  TimePoint page_until_{};
  http::Server server_;
};

}  // namespace pons::front
