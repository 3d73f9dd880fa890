#pragma once

#include <cstdint>
#include <string_view>

#include "pons/telemetry/page.h"

namespace pons::sandbox {

// What became of all sandboxes of a warden since it began.
struct FleetCounts {
  telemetry::Histogram warm{telemetry::short_bounds()};  // claims, from the pool
  telemetry::Histogram cold{telemetry::short_bounds()};  // claims that had to be built
  telemetry::Counter failed;                             // claims
  telemetry::Counter jobs;
  telemetry::Series<telemetry::Counter> ends{16};  // by reason, a word of ours
};

// How many there are now.
struct FleetFigures {
  std::uint64_t running = 0;
  std::uint64_t paused = 0;
  std::uint64_t frozen = 0;  // by themselves, being idle
  std::uint64_t jobs = 0;    // last seen running
  std::uint64_t warm = 0;    // waiting in the pool
};

void write_metrics(telemetry::Page& page, const FleetCounts& counts, const FleetFigures& now);

}  // namespace pons::sandbox
