#include "ticks.h"

#include <fmt/format.h>

#include "moment.h"
#include "pons/base/log.h"
#include "ticking.h"

namespace pons::schedule {

namespace {

using store::Statement;

struct MissTag {
  static constexpr std::string_view kPrefix = "dmis";
};

// One that stands further in the future was written before the clock was set back.
constexpr std::int64_t kLeaseLongestMs = 2 * kLeaseMs;
constexpr std::int64_t kPlannedAtOnce = 200;
constexpr const char* kMissesKept = "100";

// A tick has one run, whoever wants to make a second.
Statement insert_scheduled_run(const StoredDeployment& due, const Run& run,
                               const std::string& owner) {
  return {.sql =
              "INSERT INTO deployment_runs (id, project_id, deployment_id, agent, scheduled_at, "
              "state, created, owner, lease_until, attempts) "
              "SELECT $1, d.project_id, d.id, d.agent, CAST($2 AS BIGINT), 'starting', "
              "CAST($3 AS BIGINT), $4, CAST($5 AS BIGINT), 1 "
              "FROM deployments AS d WHERE d.id = $6 AND d.revision = $7 "
              "ON CONFLICT (deployment_id, scheduled_at) DO NOTHING",
          .values = {run.id, *run.scheduled_ms, run.created_ms, owner, run.created_ms + kLeaseMs,
                     due.shown.id, due.revision}};
}

// `run` says by which row it is known that something runs.
Statement move_on(const StoredDeployment& due, const std::optional<Tick>& next,
                  const std::string& run, std::int64_t now_ms) {
  const auto ms = [](std::optional<Tick> tick, std::chrono::sys_seconds Tick::* which) {
    return tick ? store::Value(to_ms((*tick).*which)) : store::Value(store::Null());
  };
  return {.sql =
              "UPDATE deployments SET next_at = $1, due_at = $2, revision = revision + 1, "
              "last_run_at = CASE WHEN EXISTS (SELECT 1 FROM deployment_runs WHERE id = $3) "
              "THEN $4 ELSE last_run_at END WHERE id = $5 AND revision = $6",
          .values = {ms(next, &Tick::at), ms(next, &Tick::due), run, now_ms, due.shown.id,
                     due.revision},
          .must_change = 1};
}

void record_missed(const StoredDeployment& due, const Reckoning& reckoning, std::int64_t now_ms,
                   store::Transaction& out) {
  if (reckoning.missed == 0) return;
  out.push_back({.sql = "INSERT INTO deployment_misses (id, project_id, deployment_id, first_at, "
                        "last_at, ticks, created) VALUES ($1, $2, $3, $4, $5, $6, $7)",
                 .values = {Id<MissTag>::generate().text(), due.shown.project, due.shown.id,
                            to_ms(reckoning.first_missed), to_ms(reckoning.last_missed),
                            reckoning.missed, now_ms}});
  out.push_back({.sql = fmt::format("DELETE FROM deployment_misses WHERE deployment_id = $1 "
                                    "AND id NOT IN (SELECT id FROM deployment_misses "
                                    "WHERE deployment_id = $1 ORDER BY created DESC, id DESC "
                                    "LIMIT {})",
                                    kMissesKept),
                 .values = {due.shown.id}});
}

// Only what is active: somebody may have paused or archived it meanwhile.
Statement pause_for(const std::string& deployment, const std::string& type, std::int64_t now_ms) {
  return {.sql =
              "UPDATE deployments SET paused = $1, next_at = NULL, due_at = NULL, updated = $2, "
              "revision = revision + 1 "
              "WHERE id = $3 AND paused IS NULL AND archived IS NULL",
          .values = {type, now_ms, deployment}};
}

}  // namespace

Task<Result<std::vector<StoredDeployment>>> Ticks::read_all(Statement statement) {
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  std::vector<StoredDeployment> all;
  for (const store::Row& row : rows) {
    CO_TRY(auto stored, deployment_of(row));
    all.push_back(std::move(stored));
  }
  co_return all;
}

Task<Result<std::vector<StoredDeployment>>> Ticks::list_due(std::int64_t limit) {
  return read_all({.sql = fmt::format("SELECT {} FROM deployments WHERE due_at <= $1 "
                                      "ORDER BY due_at, id LIMIT $2",
                                      kTickColumns),
                   .values = {wall_ms(clock_), limit}});
}

Task<Result<std::optional<std::int64_t>>> Ticks::find_next_due() {
  Statement statement{.sql = "SELECT min(due_at) FROM deployments WHERE due_at IS NOT NULL",
                      .values = {}};
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  if (rows.empty()) co_return std::nullopt;
  co_return store::optional_integer_of(rows.front(), 0);
}

Task<Result<std::optional<Run>>> Ticks::claim(StoredDeployment due, std::string run_id) {
  const std::int64_t now_ms = wall_ms(clock_);
  if (!due.next_ms || !due.shown.spec.schedule) co_return std::nullopt;
  CO_TRY(const auto ticking, Ticking::read(*due.shown.spec.schedule, zones_));
  const auto reckoning = reckon(ticking, from_ms(*due.next_ms), from_ms(now_ms));
  Run run{.id = std::move(run_id),
          .project = due.shown.project,
          .deployment = due.shown.id,
          .agent = due.shown.spec.agent,
          .created_ms = now_ms};
  store::Transaction all;
  if (reckoning.run) {
    run.scheduled_ms = to_ms(*reckoning.run);
    all.push_back(insert_scheduled_run(due, run, owner_));
  }
  record_missed(due, reckoning, now_ms, all);
  all.push_back(move_on(due, next_tick(ticking, due.shown.id, reckoning.after), run.id, now_ms));
  CO_TRY(const auto outcomes, co_await store_.write(std::move(all)));
  if (reckoning.missed > 0)
    LOG_WARN("a schedule has missed its time", {"deployment", due.shown.id},
             {"times", reckoning.missed});
  if (!reckoning.run || outcomes.front().changed == 0) co_return std::nullopt;
  co_return run;
}

Task<Result<void>> Ticks::give_up(StoredDeployment due, std::string run_id, std::string why) {
  const std::int64_t now_ms = wall_ms(clock_);
  const std::string type = "unknown_error";
  store::Transaction all;
  all.push_back(
      {.sql = "INSERT INTO deployment_runs (id, project_id, deployment_id, agent, "
              "scheduled_at, state, error_type, error_message, created, owner, "
              "lease_until, attempts) "
              "VALUES ($1, $2, $3, $4, $5, 'failed', $6, $7, $8, '', 0, 1) "
              "ON CONFLICT (deployment_id, scheduled_at) DO NOTHING",
       .values = {std::move(run_id), due.shown.project, due.shown.id, due.shown.spec.agent,
                  or_null(due.next_ms), type, std::move(why), now_ms}});
  all.push_back(pause_for(due.shown.id, type, now_ms));
  CO_TRY_VOID(co_await store_.write(std::move(all)));
  co_return {};
}

Task<Result<Run>> Ticks::open_by_hand(std::string project, std::string deployment,
                                      std::string run_id) {
  const std::int64_t now_ms = wall_ms(clock_);
  store::Transaction all;
  all.push_back({.sql =
                     "INSERT INTO deployment_runs (id, project_id, deployment_id, agent, state, "
                     "created, owner, lease_until, attempts) "
                     "SELECT $1, d.project_id, d.id, d.agent, 'starting', CAST($2 AS BIGINT), $3, "
                     "CAST($4 AS BIGINT), 1 FROM deployments AS d "
                     "WHERE d.id = $5 AND d.project_id = $6 AND d.archived IS NULL",
                 .values = {run_id, now_ms, owner_, now_ms + kLeaseMs, deployment, project}});
  all.push_back({.sql = fmt::format("SELECT {} FROM deployment_runs WHERE id = $1", kRunColumns),
                 .values = {run_id}});
  all.push_back({.sql = "SELECT 1 FROM deployments WHERE id = $1 AND project_id = $2",
                 .values = {deployment, project}});
  CO_TRY(const auto outcomes, co_await store_.write(std::move(all)));
  if (outcomes[2].rows.empty())
    co_return make_error(ErrorCode::kNotFound, "run deployment",
                         "there is no deployment of this id");
  if (outcomes[1].rows.empty())
    co_return make_error(ErrorCode::kInvalid, "run deployment",
                         "the deployment is archived, which is final; make a new one");
  co_return run_of(outcomes[1].rows.front());
}

Task<Result<std::vector<Ticks::Left>>> Ticks::list_left(std::int64_t limit) {
  const std::int64_t now_ms = wall_ms(clock_);
  Statement statement{.sql = fmt::format("SELECT {}, attempts, lease_until FROM deployment_runs "
                                         "WHERE state = 'starting' AND (owner = $1 "
                                         "OR lease_until < $2 OR lease_until > $3) "
                                         "ORDER BY id LIMIT $4",
                                         kRunColumns),
                      .values = {owner_, now_ms, now_ms + kLeaseLongestMs, limit}};
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  std::vector<Left> all;
  for (const store::Row& row : rows) {
    Left left;
    CO_TRY(left.run, run_of(row));
    CO_TRY(left.attempts, store::integer_of(row, row.size() - 2));
    CO_TRY(left.lease_until_ms, store::integer_of(row, row.size() - 1));
    all.push_back(std::move(left));
  }
  co_return all;
}

Task<Result<void>> Ticks::take(Left left) {
  store::Transaction all;
  all.push_back({.sql = "UPDATE deployment_runs SET owner = $1, lease_until = $2, "
                        "attempts = attempts + 1 WHERE id = $3 AND state = 'starting' "
                        "AND attempts = $4 AND lease_until = $5",
                 .values = {owner_, wall_ms(clock_) + kLeaseMs, left.run.id, left.attempts,
                            left.lease_until_ms},
                 .must_change = 1});
  CO_TRY_VOID(co_await store_.write(std::move(all)));
  co_return {};
}

Task<Result<void>> Ticks::postpone(std::string run, std::int64_t until_ms) {
  store::Transaction all;
  all.push_back({.sql = "UPDATE deployment_runs SET owner = '', lease_until = $1 "
                        "WHERE id = $2 AND state = 'starting' AND owner = $3",
                 .values = {until_ms, std::move(run), owner_}});
  CO_TRY_VOID(co_await store_.write(std::move(all)));
  co_return {};
}

Task<Result<void>> Ticks::settle(Run run) {
  store::Transaction all;
  const auto error = run.error;
  const auto text = [&](const std::string& value, bool is_there) {
    return is_there ? store::Value(value) : store::Value(store::Null());
  };
  all.push_back({.sql = "UPDATE deployment_runs SET state = $1, session_id = $2, error_type = $3, "
                        "error_message = $4 WHERE id = $5 AND state = 'starting'",
                 .values = {std::string(error ? "failed" : "started"), text(run.session, !error),
                            text(error ? error->type : "", error.has_value()),
                            text(error ? error->message : "", error.has_value()), run.id},
                 .must_change = 1});
  if (run.scheduled_ms && error && pauses_schedule(error->type))
    all.push_back(pause_for(run.deployment, error->type, wall_ms(clock_)));
  CO_TRY_VOID(co_await store_.write(std::move(all)));
  co_return {};
}

Task<Result<std::size_t>> Ticks::plan_again() {
  std::size_t changed = 0;
  for (std::string after;;) {
    const std::int64_t now_ms = wall_ms(clock_);
    CO_TRY(const auto some,
           co_await read_all({.sql = fmt::format("SELECT {} FROM deployments WHERE next_at > $1 "
                                                 "AND id > $2 ORDER BY id LIMIT $3",
                                                 kTickColumns),
                              .values = {now_ms, after, kPlannedAtOnce}}));
    if (some.empty()) co_return changed;
    after = some.back().shown.id;
    for (const StoredDeployment& stored : some) {
      const auto ticking = Ticking::read(*stored.shown.spec.schedule, zones_);
      if (!ticking) continue;
      const auto next = next_tick(*ticking, stored.shown.id, from_ms(now_ms));
      if (next && to_ms(next->at) == *stored.next_ms) continue;
      store::Transaction all;
      all.push_back(move_on(stored, next, "", now_ms));
      const auto written = co_await store_.write(std::move(all));
      if (!written && written.error().code != ErrorCode::kConflict) co_return written.error();
      if (written) ++changed;
    }
  }
}

Task<Result<std::optional<DeploymentSpec>>> Ticks::find_spec(std::string deployment) {
  CO_TRY(auto found,
         co_await read_all(
             {.sql = fmt::format("SELECT {} FROM deployments WHERE id = $1", kDeploymentColumns),
              .values = {std::move(deployment)}}));
  if (found.empty()) co_return std::nullopt;
  co_return std::move(found.front().shown.spec);
}

}  // namespace pons::schedule
