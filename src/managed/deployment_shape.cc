#include "deployment_shape.h"

#include <fmt/format.h>

#include "event_input.h"
#include "pons/managed/query.h"
#include "resource_shape.h"
#include "session_shape.h"

namespace pons::managed {

namespace {

using schedule::Deployment;
using schedule::DeploymentChange;
using schedule::DeploymentSpec;
using schedule::Schedule;

constexpr std::initializer_list<std::string_view> kMembers = {
    "name",      "agent",     "environment_id", "initial_events", "schedule",
    "resources", "vault_ids", "budget",         "description",    "metadata"};
constexpr TextLimits kNameLimits{.min = 1, .max = 256};
constexpr TextLimits kDescriptionLimits{.max = 2'048};
constexpr TextLimits kIdLimits{.min = 1, .max = 128};
constexpr std::uint64_t kLateSecondsMin = 60;
constexpr std::uint64_t kLateSecondsMax = 604'800;

// As a session reads them: what it would refuse is refused here already, not at nine in the
// morning.
Result<std::string> read_resource_text(const JsonPlace& place) {
  return dump_json(TRY(read_resources(place)));
}
Result<std::string> read_vault_text(const JsonPlace& place) {
  return dump_json(TRY(read_vault_ids(place)));
}

Result<std::string> read_events(const JsonPlace& place) {
  if (!has_value(place, "initial_events") || place.value.at("initial_events").empty())
    return place.refuse("\"initial_events\" has 1 to 50 events");
  TRY_VOID(read_inputs(place, "initial_events", {.session = {}}, Inputs::kInitial));
  return dump_json(place.value.at("initial_events"));
}

// Beyond the API's own members: what becomes of times at which Pons was not there.
Result<std::optional<Schedule>> read_schedule(const JsonPlace& place) {
  if (!has_value(place, "schedule")) return std::optional<Schedule>();
  const JsonPlace said = place.at("schedule");
  TRY_VOID(type_of(said, {"cron"}));
  TRY_VOID(said.expect_object({"type", "expression", "timezone", "missed_runs", "late_seconds",
                               "last_run_at", "upcoming_runs_at"}));
  Schedule schedule{.expression = TRY(needed_text(said, "expression", {.min = 1, .max = 256})),
                    .timezone = TRY(needed_text(said, "timezone", {.min = 1, .max = 64}))};
  const auto missed = TRY(optional_word(said, "missed_runs", {"skip", "run_once"}));
  if (missed == "run_once") schedule.missed = schedule::Missed::kRunOnce;
  if (has_value(said, "late_seconds"))
    schedule.late_seconds = static_cast<std::int64_t>(
        TRY(said.at("late_seconds").number(kLateSecondsMin, kLateSecondsMax)));
  return std::optional(std::move(schedule));
}

Result<std::optional<std::string>> read_budget_text(const JsonPlace& place) {
  if (!has_value(place, "budget")) return std::optional<std::string>();
  TRY_VOID(read_budget(place.at("budget")));
  return std::optional(dump_json(place.value.at("budget")));
}

Json time_or_null(const std::optional<std::int64_t>& ms) {
  return ms ? Json(write_time(*ms)) : Json(nullptr);
}

Json show_schedule(const Deployment& deployment) {
  if (!deployment.spec.schedule) return nullptr;
  const Schedule& schedule = *deployment.spec.schedule;
  Json upcoming = Json::array();
  for (const std::int64_t ms : deployment.upcoming_ms) upcoming.push_back(write_time(ms));
  return {{"type", "cron"},
          {"expression", schedule.expression},
          {"timezone", schedule.timezone},
          {"missed_runs", schedule.missed == schedule::Missed::kRunOnce ? "run_once" : "skip"},
          {"late_seconds", schedule.late_seconds},
          {"last_run_at", time_or_null(deployment.last_run_ms)},
          {"upcoming_runs_at", std::move(upcoming)}};
}

Json show_pause(const Deployment& deployment) {
  if (!deployment.paused) return nullptr;
  if (*deployment.paused == schedule::kPausedByHand) return {{"type", "manual"}};
  return {{"type", "error"}, {"error", {{"type", *deployment.paused}}}};
}

}  // namespace

Result<void> check_agent_wish(const JsonPlace& place) {
  if (place.value.is_string()) return {};
  TRY_VOID(type_of(place, {"agent"}));
  return place.expect_object({"type", "id", "version"});
}

std::string write_agent_reference(const Json& agent) {
  return dump_json({{"type", "agent"}, {"id", agent.at("id")}, {"version", agent.at("version")}});
}

Result<DeploymentSpec> read_new_deployment(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object(kMembers));
  DeploymentSpec spec;
  spec.name = TRY(needed_text(place, "name", kNameLimits));
  spec.description = TRY(optional_text(place, "description", kDescriptionLimits));
  if (!has_value(place, "agent")) return place.refuse("\"agent\" is missing");
  TRY_VOID(check_agent_wish(place.at("agent")));
  spec.environment_id = TRY(needed_text(place, "environment_id", kIdLimits));
  spec.initial_events = TRY(read_events(place));
  spec.resources = TRY(read_resource_text(place));
  spec.vault_ids = TRY(read_vault_text(place));
  spec.budget = TRY(read_budget_text(place));
  spec.metadata = dump_json(TRY(read_metadata(place, "metadata")));
  spec.schedule = TRY(read_schedule(place));
  return spec;
}

Result<DeploymentChange> read_changed_deployment(const DeploymentSpec& before, const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object(kMembers));
  DeploymentChange change;
  change.name = TRY(optional_text(place, "name", kNameLimits));
  if (place.has("description"))
    change.description = TRY(optional_text(place, "description", kDescriptionLimits));
  if (has_value(place, "agent")) TRY_VOID(check_agent_wish(place.at("agent")));
  change.environment_id = TRY(optional_text(place, "environment_id", kIdLimits));
  if (has_value(place, "initial_events")) change.initial_events = TRY(read_events(place));
  if (place.has("resources")) change.resources = TRY(read_resource_text(place));
  if (place.has("vault_ids")) change.vault_ids = TRY(read_vault_text(place));
  if (place.has("budget")) change.budget = TRY(read_budget_text(place));
  if (has_value(place, "metadata")) {
    const Json known = TRY(parse_json(before.metadata));
    change.metadata = dump_json(TRY(patch_metadata(known, place, "metadata")));
  }
  if (place.has("schedule")) change.schedule = TRY(read_schedule(place));
  return change;
}

Result<Json> show_deployment(const Deployment& deployment) {
  const DeploymentSpec& spec = deployment.spec;
  return Json{{"id", deployment.id},
              {"type", "deployment"},
              {"name", spec.name},
              {"description", or_null(spec.description)},
              {"agent", TRY(parse_json(spec.agent))},
              {"environment_id", spec.environment_id},
              {"initial_events", TRY(parse_json(spec.initial_events))},
              {"resources", TRY(parse_json(spec.resources))},
              {"vault_ids", TRY(parse_json(spec.vault_ids))},
              {"schedule", show_schedule(deployment)},
              {"status", deployment.paused ? "paused" : "active"},
              {"paused_reason", show_pause(deployment)},
              {"budget", spec.budget ? TRY(parse_json(*spec.budget)) : Json(nullptr)},
              {"metadata", TRY(parse_json(spec.metadata))},
              {"created_at", write_time(deployment.created_ms)},
              {"updated_at", write_time(deployment.updated_ms)},
              {"archived_at", time_or_null(deployment.archived_ms)}};
}

Result<Json> show_run(const schedule::Run& run) {
  Json trigger = {{"type", "manual"}};
  if (run.scheduled_ms)
    trigger = {{"type", "schedule"}, {"scheduled_at", write_time(*run.scheduled_ms)}};
  Json error = nullptr;
  if (run.error) error = {{"type", run.error->type}, {"message", run.error->message}};
  return Json{{"id", run.id},
              {"type", "deployment_run"},
              {"deployment_id", run.deployment},
              {"agent", TRY(parse_json(run.agent))},
              {"trigger_context", std::move(trigger)},
              {"session_id", run.error ? Json(nullptr) : Json(run.session)},
              {"error", std::move(error)},
              {"created_at", write_time(run.created_ms)}};
}

Result<Json> write_session_wish(const DeploymentSpec& spec) {
  Json wish = {{"agent", TRY(parse_json(spec.agent))},
               {"environment_id", spec.environment_id},
               {"initial_events", TRY(parse_json(spec.initial_events))},
               {"resources", TRY(parse_json(spec.resources))},
               {"vault_ids", TRY(parse_json(spec.vault_ids))}};
  if (spec.budget) wish["budget"] = TRY(parse_json(*spec.budget));
  return wish;
}

}  // namespace pons::managed
