#include "pons/sandbox/fleet_counts.h"

namespace pons::sandbox {

void write_metrics(telemetry::Page& page, const FleetCounts& counts, const FleetFigures& now) {
  using enum telemetry::Page::Type;
  page.begin("pons_sandbox_claim_seconds", kHistogram,
             "From the wish for a sandbox until it is somebody's.");
  page.add({{"start", "warm"}}, counts.warm);
  page.add({{"start", "cold"}}, counts.cold);
  page.begin("pons_sandbox_claims_failed_total", kCounter, "Sandboxes that could not be had.");
  page.add({}, counts.failed.value());
  page.begin("pons_sandbox_jobs_total", kCounter, "Jobs that were started.");
  page.add({}, counts.jobs.value());
  page.begin("pons_sandbox_ends_total", kCounter, "Sandboxes that ended, by why.");
  for (const auto& [values, count] : counts.ends.all())
    page.add({{"reason", values.front()}}, count.value());
  page.begin("pons_sandboxes", kGauge, "Sandboxes that are somebody's.");
  page.add({{"state", "running"}}, now.running);
  page.add({{"state", "paused"}}, now.paused);
  page.add({{"state", "frozen"}}, now.frozen);
  page.begin("pons_sandbox_jobs", kGauge, "Jobs that were running when they were last looked at.");
  page.add({}, now.jobs);
  page.begin("pons_sandbox_pool", kGauge, "Sandboxes that wait ready.");
  page.add({}, now.warm);
}

}  // namespace pons::sandbox
