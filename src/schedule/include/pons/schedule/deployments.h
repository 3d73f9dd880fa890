#pragma once

#include <functional>

#include "pons/base/clock.h"
#include "pons/schedule/deployment.h"
#include "pons/schedule/run.h"
#include "pons/schedule/zones.h"
#include "pons/store/store.h"

namespace pons::schedule {

struct StoredDeployment;

inline constexpr std::int64_t kDeploymentsMax = 10'000;  // of a project, without archived ones
inline constexpr std::int64_t kPageMax = 1'000;

// From the newest to the oldest.
template <class T>
struct Page {
  std::vector<T> items;
  std::string next;  // for the page that follows; empty: this was the last one
};

// Bounds of when something was made; both ends belong to it.
struct CreatedRange {
  std::optional<std::int64_t> from_ms = std::nullopt;
  std::optional<std::int64_t> to_ms = std::nullopt;
};

struct DeploymentQuery {
  std::string project;
  std::optional<std::string> agent_id = std::nullopt;
  CreatedRange created = {};
  bool include_archived = false;
  enum class Status : std::uint8_t { kActive, kPaused };
  std::optional<Status> status = std::nullopt;  // not together with include_archived
  std::int64_t limit = 20;
  std::string page = {};
};

struct RunQuery {
  std::string project;
  std::optional<std::string> deployment = std::nullopt;
  std::optional<bool> has_error = std::nullopt;
  enum class Trigger : std::uint8_t { kManual, kSchedule };
  std::optional<Trigger> trigger = std::nullopt;
  CreatedRange created = {};
  std::int64_t limit = 20;
  std::string page = {};
};

// Deployments and their runs, as people know them. Belongs to its loop. Whatever is not of the
// project that asks is kNotFound.
class Deployments {
 public:
  Deployments(store::Store& store, const Clock& clock, Zones& zones)
      : store_(store), clock_(clock), zones_(zones) {}

  // kInvalid names the field that is wrong.
  Task<Result<Deployment>> create(std::string project, DeploymentSpec spec);
  Task<Result<Deployment>> update(std::string project, std::string id, DeploymentChange change);
  Task<Result<Deployment>> find(std::string project, std::string id);
  Task<Result<Page<Deployment>>> list(DeploymentQuery query);
  // For good. Done again, these three change nothing.
  Task<Result<Deployment>> archive(std::string project, std::string id);
  Task<Result<Deployment>> pause(std::string project, std::string id);
  // What came while it rested is not made up for.
  Task<Result<Deployment>> unpause(std::string project, std::string id);

  // A run is seen once it is known what came of it.
  Task<Result<Run>> find_run(std::string project, std::string id);
  Task<Result<Page<Run>>> list_runs(RunQuery query);
  // The last hundred, from the newest on.
  Task<Result<std::vector<Miss>>> list_misses(std::string project, std::string id);

  // Told when something has become due at another time.
  void on_change(std::function<void()> told) { told_ = std::move(told); }

 private:
  enum class Effect : std::uint8_t { kChanged, kNone };
  using Modify = std::function<Result<Effect>(StoredDeployment&)>;
  Task<Result<StoredDeployment>> load(std::string project, std::string id);
  Task<Result<Deployment>> modify(std::string project, std::string id, Modify how);
  Result<void> plan_next(StoredDeployment& stored) const;
  Deployment shown(StoredDeployment stored) const;

  store::Store& store_;
  const Clock& clock_;
  Zones& zones_;
  std::function<void()> told_;
};

}  // namespace pons::schedule
