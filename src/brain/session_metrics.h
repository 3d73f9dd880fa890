#pragma once

#include <vector>

#include "pons/session/event.h"
#include "pons/telemetry/page.h"

namespace pons::brain {

// What happens in sessions, counted by kind; whose they are is in none of it.
class SessionMetrics {
 public:
  void observe(const std::vector<session::StoredEvent>& events);
  void write(telemetry::Page& page, std::size_t loaded) const;

 private:
  telemetry::Series<telemetry::Counter> events_{32};
  telemetry::Series<telemetry::Counter> turns_{16};
  telemetry::Series<telemetry::Counter> tools_{8};
  telemetry::Series<telemetry::Counter> failures_{8};
  telemetry::Histogram answers_{telemetry::long_bounds()};
};

}  // namespace pons::brain
