#include "pons/e2b/control_plane.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control_request.h"
#include "listing.h"
#include "new_sandbox.h"
#include "pons/base/id.h"
#include "pons/base/log.h"
#include "shapes.h"

namespace pons::e2b {

namespace {

using sandbox::Milliseconds;
using sandbox::SandboxInfo;
using sandbox::State;

constexpr Milliseconds kTimeoutDefault = std::chrono::seconds(300);    // of today's SDKs
constexpr Milliseconds kTimeoutDefaultOld = std::chrono::seconds(15);  // of those before them

constexpr const char* kHostname = "e2b.local";  // stands in the /etc/hosts of templates

Error not_found(std::string_view id) {
  return make_error(ErrorCode::kNotFound, "find sandbox",
                    fmt::format("Sandbox \"{}\" doesn't exist or you don't have access to it", id));
}

// As a server's name inside a host name: letters and digits only.
std::string make_sandbox_id() {
  return "i" + random_text(20);
}

// To anyone: there is nothing to be found out about what does not exist.
Task<> refuse(http::Exchange& exchange, const http::PathValues&) {
  constexpr int kNotImplemented = 501;
  const std::string_view path = exchange.request().path();
  for (const std::string_view part :
       {"/volumes", "/volumecontent", "/templates", "/v2/templates", "/v3/templates"}) {
    if (!path.starts_with(part)) continue;
    exchange.respond(
        refusal(kNotImplemented,
                fmt::format("this server has no {}; see its documentation",
                            part.ends_with("templates") ? "template builder" : "volumes")));
    co_return;
  }
  exchange.respond(refusal(404, "there is nothing at this address"));
}

}  // namespace

ControlPlane::ControlPlane(linux::Loop& loop, sandbox::Provider& provider, Directory& directory,
                           Surroundings& surroundings, ControlSettings settings)
    : loop_(loop),
      provider_(provider),
      directory_(directory),
      surroundings_(surroundings),
      settings_(std::move(settings)),
      handler_(make_handler()),
      background_(loop) {
  background_.spawn(follow_ends());
}

// ---- asking and answering

Task<> ControlPlane::answer(http::Exchange& exchange, Work work, std::string word) {
  auto caller = surroundings_.authenticate(exchange);
  if (!caller) {
    constexpr int kUnauthenticated = 401;
    exchange.respond(caller.error().code == ErrorCode::kDenied
                         ? refusal(kUnauthenticated, caller.error().message)
                         : refusal(caller.error()));
    co_return;
  }
  const bool old = !exchange.request().path().starts_with("/v2/");
  Result<http::Response> response = co_await (this->*work)(
      {.exchange = exchange, .caller = *std::move(caller), .word = std::move(word), .old = old});
  exchange.respond(response ? *std::move(response) : refusal(response.error()));
}

http::RouteHandler ControlPlane::handler_of(Work work) {
  return [this, work](http::Exchange& exchange, const http::PathValues& values) {
    return answer(exchange, work, values.empty() ? std::string() : std::string(values.front()));
  };
}

http::Handler ControlPlane::make_handler() {
  std::vector<http::Route> routes = {
      {"POST", "/sandboxes", handler_of(&ControlPlane::create)},
      {"POST", "/v2/sandboxes", handler_of(&ControlPlane::create)},
      {"GET", "/sandboxes", handler_of(&ControlPlane::list)},
      {"GET", "/v2/sandboxes", handler_of(&ControlPlane::list)},
      {"GET", "/sandboxes/metrics", handler_of(&ControlPlane::metrics_of_several)},
      {"GET", "/sandboxes/{id}", handler_of(&ControlPlane::inspect)},
      {"DELETE", "/sandboxes/{id}", handler_of(&ControlPlane::kill)},
      {"POST", "/v2/sandboxes/{id}/connect", handler_of(&ControlPlane::connect)},
      {"POST", "/sandboxes/{id}/connect", handler_of(&ControlPlane::connect)},
      {"POST", "/sandboxes/{id}/resume", handler_of(&ControlPlane::connect)},
      {"POST", "/sandboxes/{id}/timeout", handler_of(&ControlPlane::set_timeout)},
      {"POST", "/sandboxes/{id}/refreshes", handler_of(&ControlPlane::refresh)},
      {"POST", "/sandboxes/{id}/pause", handler_of(&ControlPlane::pause)},
      {"POST", "/sandboxes/{id}/fork", handler_of(&ControlPlane::fork)},
      {"PUT", "/sandboxes/{id}/network", handler_of(&ControlPlane::update_network)},
      {"GET", "/sandboxes/{id}/metrics", handler_of(&ControlPlane::metrics)},
      {"GET", "/sandboxes/{id}/logs", handler_of(&ControlPlane::logs)},
      {"GET", "/v2/sandboxes/{id}/logs", handler_of(&ControlPlane::logs)},
      {"POST", "/sandboxes/{id}/snapshots", handler_of(&ControlPlane::snapshot)},
      {"GET", "/snapshots", handler_of(&ControlPlane::list_snapshots)},
      {"DELETE", "/templates/{id}", handler_of(&ControlPlane::remove_template)},
      {"GET", "/templates/aliases/{name}", handler_of(&ControlPlane::find_alias)},
      {"POST", "/secrets", handler_of(&ControlPlane::create_secret)},
      {"GET", "/secrets", handler_of(&ControlPlane::list_secrets)},
      {"GET", "/secrets/{id}", handler_of(&ControlPlane::inspect_secret)},
      {"POST", "/secrets/{id}", handler_of(&ControlPlane::update_secret)},
      {"DELETE", "/secrets/{id}", handler_of(&ControlPlane::remove_secret)},
  };
  // Whatever else is asked for is refused in the same words.
  for (const char* method : {"GET", "POST", "PUT", "DELETE", "PATCH"})
    for (const char* pattern : {"/", "/{a}", "/{a}/{b}", "/{a}/{b}/{c}", "/{a}/{b}/{c}/{d}",
                                "/{a}/{b}/{c}/{d}/{e}", "/{a}/{b}/{c}/{d}/{e}/{f}"})
      routes.push_back({method, pattern, refuse});
  return http::route(std::move(routes));
}

Task<Result<SandboxInfo>> ControlPlane::find(const Caller& caller, std::string id) {
  auto info = co_await provider_.inspect(id);
  if (!info && info.error().code != ErrorCode::kNotFound &&
      info.error().code != ErrorCode::kInvalid)
    co_return std::move(info).error();
  const auto access = info ? read_labels(*info) : std::nullopt;
  if (!access || access->project != caller.project || info->state == State::kEnded)
    co_return not_found(id);
  co_return *std::move(info);
}

// ---- lives

Task<Result<http::Response>> ControlPlane::create(Request request) {
  CO_TRY(const Json body, co_await request.read_json());
  CO_TRY(auto wanted, read_new_sandbox(body, request.old ? kTimeoutDefaultOld : kTimeoutDefault,
                                       request.caller.project));
  sandbox::CreateRequest create{.id = make_sandbox_id(), .environment = wanted.environment};
  create.hostname = kHostname;
  create.login_shell = true;  // as the SDK starts every command
  CO_TRY(create.template_name, co_await resolve_template(request.caller, wanted.template_id));
  create.environment.insert({{"E2B_SANDBOX", "true"},
                             {"E2B_SANDBOX_ID", create.id},
                             {"E2B_TEMPLATE_ID", wanted.template_id}});
  create.limits.memory_bytes = 0;  // 0: what the operator has set
  create.limits.cpu_percent = 0;
  create.limits.pids = 0;
  create.limits.lifetime_max = wanted.timeout;
  create.limits.pause_at_end = wanted.auto_pause;
  create.network.policy = wanted.network.policy;
  put_labels(Access{.sandbox = create.id,
                    .project = request.caller.project,
                    .access_token = random_text(40),
                    .traffic_token = wanted.network.traffic_is_public ? "" : random_text(40),
                    .mask_host = wanted.network.mask_host,
                    .auto_resume = wanted.auto_resume},
             create.labels);
  put_labels(Particulars{.template_id = wanted.template_id,
                         .metadata = wanted.metadata,
                         .network = wanted.network.inward,
                         .is_cold_after_pause = !wanted.keeps_memory},
             create.labels);
  CO_TRY(const auto info, co_await make_recorded(request.caller, std::move(create)));
  directory_.learn(info);
  co_return json_response(201, sandbox_json(info, settings_.domain));
}

Task<Result<SandboxInfo>> ControlPlane::make_recorded(const Caller& caller,
                                                      sandbox::CreateRequest create) {
  const SandboxInfo planned{.id = create.id,
                            .template_name = create.template_name,
                            .created_unix_ms = Request::now_unix_ms()};
  being_made_.insert(planned.id);
  struct Made {
    std::set<std::string>& ids;
    const std::string& id;
    ~Made() { ids.erase(id); }
  } const at_end{being_made_, planned.id};
  std::optional<Result<void>> recorded;
  linux::TaskGroup recording(loop_);
  recording.spawn([](Task<Result<void>> work, std::optional<Result<void>>& result) -> Task<> {
    result = co_await std::move(work);
  }(surroundings_.record_created(caller, planned), recorded));
  auto info = co_await provider_.create(std::move(create));
  co_await recording.wait_until_empty(kNever);
  if (!info) {
    if (recorded && *recorded) background_.spawn(give_up(caller.project, planned.id));
    co_return info;
  }
  if (recorded && *recorded) co_return info;
  // One that is in no record is nobody's: it would run on without anyone who knows of it.
  (void)co_await provider_.destroy(planned.id);
  if (!recorded) co_return make_error(ErrorCode::kInternal, "keep record", "it came to no end");
  co_return std::move(*recorded).error();
}

// What failed may have been the way to the warden only, where it is made all the same. A record
// that stays open is closed when the sandbox is seen to have ended.
Task<> ControlPlane::give_up(std::string project, std::string id) {
  if (co_await provider_.destroy(id)) co_await record_end(std::move(project), id, "not made");
}

Task<> ControlPlane::record_end(std::string project, std::string id, std::string reason) {
  auto recorded =
      co_await surroundings_.record_ended(std::move(project), std::move(id), std::move(reason));
  if (!recorded) LOG_WARN("the end of a sandbox is not on record", {"error", recorded.error()});
}

Task<Result<http::Response>> ControlPlane::list(Request request) {
  CO_TRY(auto all, co_await provider_.list());
  CO_TRY(const auto page,
         select_page(std::move(all), request.caller.project, request.exchange.request().query(),
                     request.old ? States::kRunning : States::kRunningAndPaused));
  Json listed = Json::array();
  for (const SandboxInfo& info : page.sandboxes) listed.push_back(listed_json(info));
  http::Response response = json_response(200, listed);
  if (!page.next.empty()) response.fields = {{"x-next-token", page.next}};
  co_return response;
}

Task<Result<http::Response>> ControlPlane::inspect(Request request) {
  CO_TRY(const auto info, co_await find(request.caller, request.word));
  // Without its network's rules at hand the rest is still worth telling.
  const auto policy = co_await surroundings_.find_network(info.id);
  co_return json_response(
      200, detail_json(info, settings_.domain, policy ? words_of(*policy) : Json::object()));
}

Task<Result<http::Response>> ControlPlane::kill(Request request) {
  CO_TRY(const auto info, co_await find(request.caller, request.word));
  CO_TRY_VOID(co_await provider_.destroy(info.id));
  directory_.forget(info.id);
  usage_.erase(info.id);
  // Gone it is, whatever becomes of the record.
  background_.spawn(record_end(request.caller.project, info.id, "killed"));
  co_return empty_response();
}

// Of a running one the time is only ever extended.
Task<Result<http::Response>> ControlPlane::connect(Request request) {
  CO_TRY(const Json body, co_await request.read_json());
  CO_TRY(const auto timeout, read_seconds(body, "timeout"));
  const Milliseconds time = timeout.value_or(request.old ? kTimeoutDefaultOld : kTimeoutDefault);
  CO_TRY(const bool cold, wants_cold(body));
  CO_TRY(auto info, co_await find(request.caller, request.word));
  const bool paused = info.state == State::kPaused;
  const auto ends = request.now_unix_ms() + time.count();
  // Its time was what paused it, and that was to keep files only.
  const bool ended_cold = read_particulars(info).is_cold_after_pause && info.ends_unix_ms &&
                          *info.ends_unix_ms <= request.now_unix_ms();
  if (paused || (info.ends_unix_ms && *info.ends_unix_ms < ends)) {
    CO_TRY_VOID(co_await provider_.set_lifetime(info.id, time, info.limits.pause_at_end));
  }
  if (paused) {
    CO_TRY_VOID(co_await provider_.resume(info.id));
    if (cold || ended_cold) {
      CO_TRY_VOID(co_await end_processes(info.id));
    }
  }
  directory_.learn(info);
  co_return json_response(paused ? 201 : 200, sandbox_json(info, settings_.domain));
}

Task<Result<http::Response>> ControlPlane::set_timeout(Request request) {
  CO_TRY(const Json body, co_await request.read_json());
  CO_TRY(const auto timeout, read_seconds(body, "timeout"));
  if (!timeout) co_return make_error(ErrorCode::kInvalid, "set timeout", "timeout is missing");
  CO_TRY(const auto info, co_await find(request.caller, request.word));
  if (info.state == State::kPaused) co_return not_found(info.id);
  CO_TRY_VOID(co_await provider_.set_lifetime(info.id, *timeout, info.limits.pause_at_end));
  co_return empty_response();
}

Task<Result<http::Response>> ControlPlane::refresh(Request request) {
  CO_TRY(const Json body, co_await request.read_json());
  CO_TRY(const auto duration, read_seconds(body, "duration"));
  CO_TRY(const auto info, co_await find(request.caller, request.word));
  const Milliseconds time = duration.value_or(kTimeoutDefaultOld);
  if (!info.ends_unix_ms || *info.ends_unix_ms >= request.now_unix_ms() + time.count())
    co_return empty_response();
  CO_TRY_VOID(co_await provider_.set_lifetime(info.id, time, info.limits.pause_at_end));
  co_return empty_response();
}

// As root inside, where only the sandbox's own processes are; they have no time to object.
Task<Result<void>> ControlPlane::end_processes(std::string id) {
  constexpr Duration kTime = std::chrono::seconds(10);
  const sandbox::JobSpec job{.shell_line = "kill -9 -1",
                             .user = "root",
                             .timeout = std::chrono::duration_cast<sandbox::Milliseconds>(kTime)};
  CO_TRY(const auto stream, co_await provider_.execute(std::move(id), job));
  for (const TimePoint deadline = loop_.now() + kTime;;) {
    CO_TRY(const auto event, co_await stream->next(deadline));
    if (!event || std::holds_alternative<sandbox::JobInfo>(*event)) co_return {};
  }
}

Task<Result<http::Response>> ControlPlane::pause(Request request) {
  CO_TRY(const Json body, co_await request.read_json());
  CO_TRY(const bool cold, wants_cold(body));
  CO_TRY(const auto info, co_await find(request.caller, request.word));
  if (info.state == State::kPaused)
    co_return make_error(ErrorCode::kConflict, "pause", "Sandbox is already paused");
  if (cold) {
    CO_TRY_VOID(co_await end_processes(info.id));
  }
  // A paused sandbox waits for its owner, however long that takes.
  CO_TRY_VOID(co_await provider_.set_lifetime(info.id, Milliseconds(0), info.limits.pause_at_end));
  CO_TRY_VOID(co_await provider_.pause(info.id));
  co_return empty_response();
}

// ---- copies

Task<Result<SandboxInfo>> ControlPlane::fork_one(const Caller& caller, const SandboxInfo& from,
                                                 Milliseconds timeout) {
  sandbox::CreateRequest create{.id = make_sandbox_id(),
                                .template_name = from.template_name,
                                .hostname = kHostname,
                                .labels = from.labels,
                                .limits = from.limits};
  create.limits.lifetime_max = timeout;
  // As it is now, not as it began.
  auto policy = co_await surroundings_.find_network(from.id);
  if (policy)
    create.network.policy = *std::move(policy);
  else if (policy.error().code != ErrorCode::kNotFound)
    co_return std::move(policy).error();  // it must not be the one of the beginning
  Access access = read_labels(from).value_or(Access{});
  access.sandbox = create.id;
  access.access_token = random_text(40);
  if (!access.traffic_token.empty()) access.traffic_token = random_text(40);
  put_labels(access, create.labels);
  CO_TRY(auto info, co_await provider_.fork(from.id, std::move(create)));
  if (auto recorded = co_await surroundings_.record_created(caller, info); !recorded) {
    (void)co_await provider_.destroy(info.id);  // in no record: nobody's
    co_return recorded.error();
  }
  directory_.learn(info);
  co_return std::move(info);
}

Task<Result<http::Response>> ControlPlane::fork(Request request) {
  constexpr std::int64_t kForksMax = 100;
  CO_TRY(const Json body, co_await request.read_json());
  CO_TRY(const auto timeout, read_seconds(body, "timeout"));
  std::int64_t count = 1;
  if (const auto wanted = body.find("count"); wanted != body.end() && !wanted->is_null()) {
    if (!wanted->is_number_integer()) co_return make_error(ErrorCode::kInvalid, "fork", "count");
    count = wanted->get<std::int64_t>();
  }
  if (count < 1 || count > kForksMax)
    co_return make_error(ErrorCode::kInvalid, "fork", "count is a number from 1 to 100");
  CO_TRY(const auto from, co_await find(request.caller, request.word));
  Json made = Json::array();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto info = co_await fork_one(request.caller, from, timeout.value_or(kTimeoutDefault));
    if (info) {
      made.push_back({{"sandbox", sandbox_json(*info, settings_.domain)}});
      continue;
    }
    const http::Response refused = refusal(info.error());
    made.push_back({{"error", {{"code", refused.status}, {"message", info.error().message}}}});
  }
  co_return json_response(201, made);
}

// ---- network

Task<Result<http::Response>> ControlPlane::update_network(Request request) {
  CO_TRY(const Json body, co_await request.read_json());
  CO_TRY(const auto network, read_network(body, body, request.caller.project));
  CO_TRY(const auto info, co_await find(request.caller, request.word));
  CO_TRY_VOID(co_await surroundings_.set_network(info.id, network.policy));
  co_return empty_response();
}

// The output of processes belongs to who started them; of the sandbox itself there is nothing to
// say.
Task<Result<http::Response>> ControlPlane::logs(Request request) {
  CO_TRY_VOID(co_await find(request.caller, request.word));
  co_return json_response(200, {{"logs", Json::array()}, {"logEntries", Json::array()}});
}

}  // namespace pons::e2b
