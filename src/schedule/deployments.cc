#include "pons/schedule/deployments.h"

#include <fmt/format.h>

#include "check_spec.h"
#include "moment.h"
#include "pons/base/id.h"
#include "rows.h"
#include "ticking.h"

namespace pons::schedule {

namespace {

struct DeploymentTag {
  static constexpr std::string_view kPrefix = "depl";
};

constexpr std::size_t kUpcoming = 5;
constexpr int kTries = 5;

template <class T>
void assign(const std::optional<T>& from, T& to) {
  if (from) to = *from;
}

void apply(const DeploymentChange& change, DeploymentSpec& spec) {
  assign(change.name, spec.name);
  assign(change.description, spec.description);
  assign(change.agent, spec.agent);
  assign(change.environment_id, spec.environment_id);
  assign(change.initial_events, spec.initial_events);
  assign(change.resources, spec.resources);
  assign(change.vault_ids, spec.vault_ids);
  assign(change.budget, spec.budget);
  assign(change.metadata, spec.metadata);
  assign(change.schedule, spec.schedule);
}

Result<void> refuse_archived(const StoredDeployment& stored) {
  if (!stored.shown.archived_ms) return {};
  return make_error(ErrorCode::kInvalid, "change deployment",
                    "the deployment is archived, which is final; make a new one");
}

}  // namespace

// Its next tick from now on; none when nothing is to come.
Result<void> Deployments::plan_next(StoredDeployment& stored) const {
  const Deployment& shown = stored.shown;
  stored.next_ms = stored.due_ms = std::nullopt;
  if (!shown.spec.schedule || shown.paused || shown.archived_ms) return {};
  const auto ticking = TRY(Ticking::read(*shown.spec.schedule, zones_));
  const auto tick = next_tick(ticking, shown.id, from_ms(wall_ms(clock_)));
  if (!tick) return {};
  stored.next_ms = to_ms(tick->at);
  stored.due_ms = to_ms(tick->due);
  return {};
}

Deployment Deployments::shown(StoredDeployment stored) const {
  Deployment& all = stored.shown;
  if (!all.spec.schedule || all.archived_ms) return std::move(all);
  // A zone that is gone since leaves the list empty, and nothing else.
  if (const auto ticking = Ticking::read(*all.spec.schedule, zones_))
    for (const auto moment :
         upcoming(ticking->cron, *ticking->zone, from_ms(wall_ms(clock_)), kUpcoming))
      all.upcoming_ms.push_back(to_ms(moment));
  return std::move(all);
}

Task<Result<Deployment>> Deployments::create(std::string project, DeploymentSpec spec) {
  CO_TRY_VOID(check_spec(spec, zones_));
  CO_TRY(const auto agent_id, agent_id_of(spec.agent));
  StoredDeployment stored;
  stored.shown.id = Id<DeploymentTag>::generate().text();
  stored.shown.project = std::move(project);
  stored.shown.spec = std::move(spec);
  stored.shown.created_ms = stored.shown.updated_ms = wall_ms(clock_);
  CO_TRY_VOID(plan_next(stored));
  store::Transaction all;
  all.push_back(insert_deployment(stored, agent_id, kDeploymentsMax));
  const auto written = co_await store_.write(std::move(all));
  if (!written && written.error().code == ErrorCode::kConflict)
    co_return make_error(ErrorCode::kNotFound, "create deployment", "there is no such project");
  if (!written) co_return written.error();
  if (written->front().changed == 0)
    co_return make_error(
        ErrorCode::kLimit, "create deployment",
        fmt::format("the project has {} deployments, which is the most", kDeploymentsMax));
  if (told_) told_();
  co_return shown(std::move(stored));
}

Task<Result<StoredDeployment>> Deployments::load(std::string project, std::string id) {
  store::Statement statement{
      .sql = fmt::format("SELECT {} FROM deployments WHERE id = $1 AND project_id = $2",
                         kDeploymentColumns),
      .values = {std::move(id), std::move(project)}};
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  if (rows.empty())
    co_return make_error(ErrorCode::kNotFound, "find deployment",
                         "there is no deployment of this id");
  co_return deployment_of(rows.front());
}

Task<Result<Deployment>> Deployments::modify(std::string project, std::string id, Modify how) {
  for (int i = 0; i < kTries; ++i) {
    CO_TRY(auto stored, co_await load(project, id));
    CO_TRY(const Effect effect, how(stored));
    if (effect == Effect::kNone) co_return shown(std::move(stored));
    stored.shown.updated_ms = wall_ms(clock_);
    CO_TRY(const auto agent_id, agent_id_of(stored.shown.spec.agent));
    store::Transaction all;
    all.push_back(update_deployment(stored, agent_id));
    const auto written = co_await store_.write(std::move(all));
    if (written) {
      if (told_) told_();
      co_return shown(std::move(stored));
    }
    // Somebody else was faster; what they made of it is looked at again.
    if (written.error().code != ErrorCode::kConflict) co_return written.error();
  }
  co_return make_error(ErrorCode::kConflict, "change deployment",
                       "others change the deployment at the same time; try again");
}

Task<Result<Deployment>> Deployments::update(std::string project, std::string id,
                                             DeploymentChange change) {
  return modify(std::move(project), std::move(id),
                [this, change = std::move(change)](StoredDeployment& stored) -> Result<Effect> {
                  TRY_VOID(refuse_archived(stored));
                  const auto before = stored.shown.spec.schedule;
                  apply(change, stored.shown.spec);
                  TRY_VOID(check_spec(stored.shown.spec, zones_));
                  if (stored.shown.spec.schedule != before) TRY_VOID(plan_next(stored));
                  return Effect::kChanged;
                });
}

Task<Result<Deployment>> Deployments::find(std::string project, std::string id) {
  CO_TRY(auto stored, co_await load(std::move(project), std::move(id)));
  co_return shown(std::move(stored));
}

Task<Result<Deployment>> Deployments::archive(std::string project, std::string id) {
  return modify(std::move(project), std::move(id),
                [this](StoredDeployment& stored) -> Result<Effect> {
                  if (stored.shown.archived_ms) return Effect::kNone;
                  stored.shown.archived_ms = wall_ms(clock_);
                  stored.shown.paused = std::nullopt;
                  TRY_VOID(plan_next(stored));
                  return Effect::kChanged;
                });
}

Task<Result<Deployment>> Deployments::pause(std::string project, std::string id) {
  return modify(std::move(project), std::move(id),
                [this](StoredDeployment& stored) -> Result<Effect> {
                  TRY_VOID(refuse_archived(stored));
                  if (stored.shown.paused) return Effect::kNone;
                  stored.shown.paused = kPausedByHand;
                  TRY_VOID(plan_next(stored));
                  return Effect::kChanged;
                });
}

Task<Result<Deployment>> Deployments::unpause(std::string project, std::string id) {
  return modify(std::move(project), std::move(id),
                [this](StoredDeployment& stored) -> Result<Effect> {
                  TRY_VOID(refuse_archived(stored));
                  if (!stored.shown.paused) return Effect::kNone;
                  stored.shown.paused = std::nullopt;
                  TRY_VOID(plan_next(stored));
                  return Effect::kChanged;
                });
}

}  // namespace pons::schedule
