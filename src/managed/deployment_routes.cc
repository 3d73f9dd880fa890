#include <nlohmann/json.hpp>

#include "deployment_shape.h"
#include "named_files.h"
#include "pons/managed/deployment_api.h"
#include "pons/schedule/deployments.h"
#include "pons/schedule/scheduler.h"
#include "resource_shape.h"
#include "routes.h"
#include "run_starter.h"
#include "session_maker.h"

namespace pons::managed {

using schedule::DeploymentQuery;
using schedule::RunQuery;

struct DeploymentApi::Parts {
  Parts(linux::Loop& loop, store::Store& store, const Clock& clock, session::Sessions& sessions,
        std::string owner)
      : objects{.store = store, .clock = clock},
        zones(clock),
        deployments(store, clock, zones),
        starter(objects, sessions),
        scheduler(loop, clock, store, zones, deployments, starter, {.owner = std::move(owner)}) {}

  Objects objects;
  schedule::Zones zones;
  schedule::Deployments deployments;
  SessionStarter starter;
  schedule::Scheduler scheduler;
};

namespace {

struct Context {
  Objects& objects;
  schedule::Deployments& deployments;
  schedule::Scheduler& scheduler;
};

template <class T>
Task<Reply<Json>> shown(Task<Result<T>> work, Result<Json> (*show)(const T&)) {
  CO_TRY(const auto done, co_await std::move(work));
  CO_TRY(auto json, show(done));
  co_return json;
}

template <class T>
Reply<Json> show_page(const schedule::Page<T>& page, Result<Json> (*show)(const T&)) {
  Json data = Json::array();
  for (const T& item : page.items) data.push_back(TRY(show(item)));
  return Json{{"data", std::move(data)},
              {"next_page", page.next.empty() ? Json(nullptr) : Json(page.next)}};
}

// A deployment is made only of what is there.
Task<Reply<Document>> find_environment(Objects& objects, std::string project, std::string id) {
  auto found = co_await objects.environments.find(std::move(project), std::move(id));
  if (found && !found->archived_ms) co_return found;
  Refusal refusal = found ? is_archived("environment") : found.error();
  if (found || refusal.status == 404)
    refusal.code = found ? "environment_archived" : "environment_not_found";
  co_return refusal;
}

// What its sessions are to have: as they look it up.
struct Belongings {
  std::string environment;
  std::optional<std::string> resources;  // JSON
  std::optional<std::string> vault_ids;
};
Task<Reply<void>> check_belongings(Objects& objects, std::string project, Belongings has) {
  CO_TRY(const auto environment,
         co_await find_environment(objects, project, std::move(has.environment)));
  if (has.resources) {
    CO_TRY(const auto config, parse_json(environment.text));
    CO_TRY(auto list, parse_json(*has.resources));
    CO_TRY_VOID(co_await settle_resources(
        objects,
        {.project = project, .self_hosted = config.at("config").at("type") == "self_hosted"},
        std::move(list)));
  }
  if (has.vault_ids) {
    CO_TRY(auto list, parse_json(*has.vault_ids));
    CO_TRY_VOID(co_await check_vaults(objects, std::move(project), std::move(list)));
  }
  co_return {};
}

// As a session of it would read them now; what is kept are the client's own words.
Task<Reply<Json>> settle_events(Objects& objects, std::string project, Json body) {
  if (body.contains("initial_events")) {
    CO_TRY(body["initial_events"],
           co_await bring_files(objects, std::move(project), body["initial_events"]));
  }
  co_return body;
}

Task<Reply<Json>> create(Context& context, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  const std::string& project = call.caller.project;
  CO_TRY(const auto settled, co_await settle_events(context.objects, project, body));
  CO_TRY(auto spec, read_new_deployment(settled));
  spec.initial_events = dump_json(body.at("initial_events"));
  CO_TRY(const auto agent, co_await find_agent(context.objects, project, body.at("agent")));
  spec.agent = write_agent_reference(agent);
  CO_TRY_VOID(co_await check_belongings(context.objects, project,
                                        {.environment = spec.environment_id,
                                         .resources = spec.resources,
                                         .vault_ids = spec.vault_ids}));
  co_return co_await shown(context.deployments.create(project, std::move(spec)), show_deployment);
}

Task<Reply<Json>> update(Context& context, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  const std::string& project = call.caller.project;
  CO_TRY(const auto before, co_await context.deployments.find(project, call.ids[0]));
  CO_TRY(const auto settled, co_await settle_events(context.objects, project, body));
  CO_TRY(auto change, read_changed_deployment(before.spec, settled));
  if (change.initial_events) change.initial_events = dump_json(body.at("initial_events"));
  if (body.contains("agent") && !body.at("agent").is_null()) {
    CO_TRY(const auto agent, co_await find_agent(context.objects, project, body.at("agent")));
    change.agent = write_agent_reference(agent);
  }
  if (change.environment_id || change.resources || change.vault_ids)
    CO_TRY_VOID(co_await check_belongings(
        context.objects, project,
        {.environment = change.environment_id.value_or(before.spec.environment_id),
         .resources = change.resources,
         .vault_ids = change.vault_ids}));
  co_return co_await shown(context.deployments.update(project, call.ids[0], std::move(change)),
                           show_deployment);
}

Task<Reply<Json>> get(Context& context, Call& call) {
  return shown(context.deployments.find(call.caller.project, call.ids[0]), show_deployment);
}
Task<Reply<Json>> archive(Context& context, Call& call) {
  return shown(context.deployments.archive(call.caller.project, call.ids[0]), show_deployment);
}
Task<Reply<Json>> pause(Context& context, Call& call) {
  return shown(context.deployments.pause(call.caller.project, call.ids[0]), show_deployment);
}
Task<Reply<Json>> unpause(Context& context, Call& call) {
  return shown(context.deployments.unpause(call.caller.project, call.ids[0]), show_deployment);
}
Task<Reply<Json>> run(Context& context, Call& call) {
  return shown(context.scheduler.run_now(call.caller.project, call.ids[0]), show_run);
}
Task<Reply<Json>> get_run(Context& context, Call& call) {
  return shown(context.deployments.find_run(call.caller.project, call.ids[0]), show_run);
}

Result<std::int64_t> read_limit(const Query& query) {
  return TRY(query.number("limit", schedule::kPageMax)).value_or(20);
}

// Ends that do not belong to it are the millisecond beside them.
Result<schedule::CreatedRange> read_created(const Query& query) {
  schedule::CreatedRange range{.from_ms = TRY(query.time("created_at[gte]")),
                               .to_ms = TRY(query.time("created_at[lte]"))};
  if (const auto after = TRY(query.time("created_at[gt]"))) range.from_ms = *after + 1;
  if (const auto before = TRY(query.time("created_at[lt]"))) range.to_ms = *before - 1;
  return range;
}

// One of two words; nothing when it is not there.
template <class T>
Result<std::optional<T>> read_word(const Query& query, const char* name,
                                   std::pair<const char*, T> one, std::pair<const char*, T> other) {
  const auto word = query.find(name);
  if (!word) return std::optional<T>();
  if (*word == one.first) return std::optional<T>(one.second);
  if (*word == other.first) return std::optional<T>(other.second);
  return make_error(ErrorCode::kInvalid, "read query",
                    std::string(name) + ": must be " + one.first + " or " + other.first);
}

Task<Reply<Json>> list(Context& context, Call& call) {
  using enum DeploymentQuery::Status;
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  DeploymentQuery wish{.project = call.caller.project,
                       .agent_id = query.find("agent_id"),
                       .page = query.find("page").value_or("")};
  CO_TRY(wish.created, read_created(query));
  CO_TRY(wish.limit, read_limit(query));
  CO_TRY(wish.include_archived, query.flag("include_archived"));
  CO_TRY(wish.status,
         read_word(query, "status", std::pair("active", kActive), std::pair("paused", kPaused)));
  CO_TRY(const auto page, co_await context.deployments.list(std::move(wish)));
  co_return show_page(page, show_deployment);
}

Task<Reply<Json>> list_runs(Context& context, Call& call) {
  using enum RunQuery::Trigger;
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  RunQuery wish{.project = call.caller.project,
                .deployment = query.find("deployment_id"),
                .page = query.find("page").value_or("")};
  CO_TRY(wish.created, read_created(query));
  CO_TRY(wish.limit, read_limit(query));
  CO_TRY(wish.has_error,
         read_word(query, "has_error", std::pair("true", true), std::pair("false", false)));
  CO_TRY(wish.trigger, read_word(query, "trigger_type", std::pair("manual", kManual),
                                 std::pair("schedule", kSchedule)));
  CO_TRY(const auto page, co_await context.deployments.list_runs(std::move(wish)));
  co_return show_page(page, show_run);
}

}  // namespace

DeploymentApi::DeploymentApi(linux::Loop& loop, store::Store& store, const Clock& clock,
                             session::Sessions& sessions, std::string owner)
    : parts_(std::make_unique<Parts>(loop, store, clock, sessions, std::move(owner))) {}

DeploymentApi::~DeploymentApi() = default;

Task<> DeploymentApi::keep_going() {
  return parts_->scheduler.keep_going();
}

void DeploymentApi::use_vaults(VaultFinder finder) {
  parts_->objects.find_vault = std::move(finder);
}

void DeploymentApi::use_harnesses(HarnessChoice choice) {
  parts_->objects.harnesses = std::move(choice);
}

std::vector<http::Route> DeploymentApi::routes() {
  const auto with = [this](Task<Reply<Json>> (*work)(Context&, Call&)) {
    return answering([context = Context{parts_->objects, parts_->deployments, parts_->scheduler},
                      work](Call& call) mutable { return work(context, call); });
  };
  return {{"POST", "/v1/deployments", with(create)},
          {"GET", "/v1/deployments", with(list)},
          {"GET", "/v1/deployments/{id}", with(get)},
          {"POST", "/v1/deployments/{id}", with(update)},
          {"POST", "/v1/deployments/{id}/archive", with(archive)},
          {"POST", "/v1/deployments/{id}/pause", with(pause)},
          {"POST", "/v1/deployments/{id}/unpause", with(unpause)},
          {"POST", "/v1/deployments/{id}/run", with(run)},
          {"GET", "/v1/deployment_runs", with(list_runs)},
          {"GET", "/v1/deployment_runs/{id}", with(get_run)}};
}

}  // namespace pons::managed
