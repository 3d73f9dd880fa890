#include "rows.h"

#include <fmt/format.h>

namespace pons::schedule {

const std::string_view kDeploymentColumns =
    "id, project_id, name, description, agent, environment_id, initial_events, resources, "
    "vault_ids, budget, metadata, expression, timezone, missed, late_seconds, next_at, due_at, "
    "last_run_at, paused, revision, created, updated, archived";

// In the same order. What a session is made of may be long, and many are looked at together.
const std::string_view kTickColumns =
    "id, project_id, name, NULL, agent, environment_id, '', '', '', NULL, '', expression, "
    "timezone, missed, late_seconds, next_at, due_at, last_run_at, paused, revision, created, "
    "updated, archived";

const std::string_view kRunColumns =
    "id, project_id, deployment_id, agent, scheduled_at, session_id, error_type, error_message, "
    "created";

std::string_view name_of(Missed missed) {
  return missed == Missed::kRunOnce ? "run_once" : "skip";
}

Result<std::optional<std::string>> optional_text_of(const store::Row& row, std::size_t column) {
  if (column < row.size() && std::holds_alternative<store::Null>(row[column])) return std::nullopt;
  return TRY(store::text_of(row, column));
}

Result<StoredDeployment> deployment_of(const store::Row& row) {
  StoredDeployment stored;
  Deployment& shown = stored.shown;
  DeploymentSpec& spec = shown.spec;
  std::size_t column = 0;
  for (std::string* text : {&shown.id, &shown.project, &spec.name})
    *text = TRY(store::text_of(row, column++));
  spec.description = TRY(optional_text_of(row, column++));
  for (std::string* text :
       {&spec.agent, &spec.environment_id, &spec.initial_events, &spec.resources, &spec.vault_ids})
    *text = TRY(store::text_of(row, column++));
  spec.budget = TRY(optional_text_of(row, column++));
  spec.metadata = TRY(store::text_of(row, column++));
  const auto expression = TRY(optional_text_of(row, column++));
  const auto timezone = TRY(optional_text_of(row, column++));
  const auto missed = TRY(store::text_of(row, column++));
  const auto late = TRY(store::integer_of(row, column++));
  if (expression && timezone)
    spec.schedule =
        Schedule{.expression = *expression,
                 .timezone = *timezone,
                 .missed = missed == name_of(Missed::kRunOnce) ? Missed::kRunOnce : Missed::kSkip,
                 .late_seconds = late};
  for (std::optional<std::int64_t>* number : {&stored.next_ms, &stored.due_ms, &shown.last_run_ms})
    *number = TRY(store::optional_integer_of(row, column++));
  shown.paused = TRY(optional_text_of(row, column++));
  for (std::int64_t* number : {&stored.revision, &shown.created_ms, &shown.updated_ms})
    *number = TRY(store::integer_of(row, column++));
  shown.archived_ms = TRY(store::optional_integer_of(row, column++));
  return stored;
}

namespace {

// In the order of the columns that both statements name.
std::vector<store::Value> values_of(const StoredDeployment& stored, const std::string& agent_id) {
  const Deployment& shown = stored.shown;
  const DeploymentSpec& spec = shown.spec;
  const Schedule schedule = spec.schedule.value_or(Schedule{});
  const auto of_schedule = [&](const std::string& text) {
    return spec.schedule ? store::Value(text) : store::Value(store::Null());
  };
  return {shown.id,
          shown.project,
          spec.name,
          or_null(spec.description),
          spec.agent,
          agent_id,
          spec.environment_id,
          spec.initial_events,
          spec.resources,
          spec.vault_ids,
          or_null(spec.budget),
          spec.metadata,
          of_schedule(schedule.expression),
          of_schedule(schedule.timezone),
          std::string(name_of(schedule.missed)),
          schedule.late_seconds,
          or_null(stored.next_ms),
          or_null(stored.due_ms),
          or_null(shown.paused),
          stored.revision,
          shown.updated_ms,
          or_null(shown.archived_ms)};
}

}  // namespace

store::Statement insert_deployment(const StoredDeployment& stored, const std::string& agent_id,
                                   std::int64_t most_of_project) {
  auto values = values_of(stored, agent_id);
  values.emplace_back(most_of_project);
  // The number of rows is looked at in the same statement: two at once cannot pass the limit
  // together.
  return {.sql =
              "INSERT INTO deployments (id, project_id, name, description, agent, agent_id, "
              "environment_id, initial_events, resources, vault_ids, budget, metadata, expression, "
              "timezone, missed, late_seconds, next_at, due_at, paused, revision, updated, "
              "archived, created) "
              "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, "
              "CAST($16 AS BIGINT), CAST($17 AS BIGINT), CAST($18 AS BIGINT), $19, "
              "CAST($20 AS BIGINT), CAST($21 AS BIGINT), CAST($22 AS BIGINT), "
              "CAST($21 AS BIGINT) WHERE (SELECT count(*) FROM deployments WHERE project_id = $2 "
              "AND archived IS NULL) < CAST($23 AS BIGINT)",
          .values = std::move(values)};
}

store::Statement update_deployment(const StoredDeployment& stored, const std::string& agent_id) {
  return {.sql =
              "UPDATE deployments SET name = $3, description = $4, agent = $5, agent_id = $6, "
              "environment_id = $7, initial_events = $8, resources = $9, vault_ids = $10, "
              "budget = $11, metadata = $12, expression = $13, timezone = $14, missed = $15, "
              "late_seconds = $16, next_at = $17, due_at = $18, paused = $19, "
              "revision = revision + 1, updated = $21, archived = $22 "
              "WHERE id = $1 AND project_id = $2 AND revision = $20",
          .values = values_of(stored, agent_id),
          .must_change = 1};
}

Result<Run> run_of(const store::Row& row) {
  Run run;
  std::size_t column = 0;
  for (std::string* text : {&run.id, &run.project, &run.deployment, &run.agent})
    *text = TRY(store::text_of(row, column++));
  run.scheduled_ms = TRY(store::optional_integer_of(row, column++));
  run.session = TRY(optional_text_of(row, column++)).value_or("");
  const auto type = TRY(optional_text_of(row, column++));
  const auto message = TRY(optional_text_of(row, column++));
  if (type) run.error = RunError{.type = *type, .message = message.value_or("")};
  run.created_ms = TRY(store::integer_of(row, column++));
  return run;
}

}  // namespace pons::schedule
