#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pons/base/clock.h"
#include "pons/schedule/run.h"
#include "pons/schedule/zones.h"
#include "pons/store/store.h"
#include "rows.h"

namespace pons::schedule {

// A process that has said nothing about a run for so long is taken for dead.
inline constexpr std::int64_t kLeaseMs = 120'000;

// What schedulers write. Each statement says what it has seen, so that of several who do the same
// thing at the same time one does it.
class Ticks {
 public:
  // `owner` is who this process is. Runs that it had in an earlier life are its own.
  Ticks(store::Store& store, const Clock& clock, Zones& zones, std::string owner)
      : store_(store), clock_(clock), zones_(zones), owner_(std::move(owner)) {}

  // Deployments whose time has come, the longest ago first.
  Task<Result<std::vector<StoredDeployment>>> list_due(std::int64_t limit);
  // When the next one is due; nothing when none is to come.
  Task<Result<std::optional<std::int64_t>>> find_next_due();

  // Deals with the tick of a deployment that is due: moves it on, records what was missed, and in
  // the same transaction stores the run that this process is to start now. Nothing when there is
  // none to start. kConflict: somebody else has done it.
  Task<Result<std::optional<Run>>> claim(StoredDeployment due, std::string run_id);
  // For a schedule that cannot be read any more: a run with an error, and it rests.
  Task<Result<void>> give_up(StoredDeployment due, std::string run_id, std::string why);

  // kInvalid when it is archived.
  Task<Result<Run>> open_by_hand(std::string project, std::string deployment, std::string run_id);

  struct Left {
    Run run;
    std::int64_t attempts = 0;
    std::int64_t lease_until_ms = 0;
  };
  // Runs that nobody is starting.
  Task<Result<std::vector<Left>>> list_left(std::int64_t limit);
  // kConflict: somebody else has.
  Task<Result<void>> take(Left left);
  // Nobody's until then.
  Task<Result<void>> postpone(std::string run, std::int64_t until_ms);
  // Once; what comes later changes nothing. An error of a schedule's own run may stop the schedule.
  Task<Result<void>> settle(Run run);

  // Looks whether what is planned is still what is next: the clock may have been set back, or the
  // rules of a zone may be others. How many were not.
  Task<Result<std::size_t>> plan_again();

  Task<Result<std::optional<DeploymentSpec>>> find_spec(std::string deployment);

 private:
  Task<Result<std::vector<StoredDeployment>>> read_all(store::Statement statement);

  store::Store& store_;
  const Clock& clock_;
  Zones& zones_;
  std::string owner_;
};

}  // namespace pons::schedule
