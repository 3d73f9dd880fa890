#include "pons/e2b/control_plane.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "address.h"
#include "call.h"
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

// What programs inside know it by; a caller's variables of these names do not hide it.
void put_identity(const std::string& id, const std::string& template_id,
                  std::map<std::string, std::string>& environment) {
  environment["E2B_SANDBOX"] = "true";
  environment["E2B_SANDBOX_ID"] = id;
  environment["E2B_TEMPLATE_ID"] = template_id;
}

// To anyone: there is nothing to be found out about what does not exist.
Task<> answer_unknown(http::Exchange& exchange, const http::PathValues&) {
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

void ControlPlane::refuse(http::Exchange& exchange, int status, std::string_view message) {
  exchange.respond(refusal(status, message));
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
      routes.push_back({method, pattern, answer_unknown});
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
  put_identity(create.id, wanted.template_id, create.environment);
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
  response.fields = {{"X-Total-Running", fmt::format("{}", page.running)}};
  if (!page.next.empty()) response.fields.emplace_back("x-next-token", page.next);
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
  if (info.state != State::kPaused && request.exchange.request().path().ends_with("/resume"))
    co_return make_error(ErrorCode::kConflict, "resume", "Sandbox is already running");
  const auto now = request.now_unix_ms();
  bool time_paused_it =
      info.state == State::kPaused && info.ends_unix_ms && *info.ends_unix_ms <= now;
  if (info.state != State::kPaused && info.ends_unix_ms &&
      *info.ends_unix_ms < now + time.count()) {
    CO_TRY(info, co_await provider_.set_lifetime(info.id, time, info.limits.pause_at_end));
    time_paused_it = info.state == State::kPaused;  // since it was looked at
  }
  const bool paused = info.state == State::kPaused;
  if (paused) {
    CO_TRY_VOID(co_await wake_for(provider_, info, time));
    // Of some, a pause at their end was to keep files only.
    if (cold || (time_paused_it && read_particulars(info).is_cold_after_pause)) {
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
  if (cold != info.labels.contains(kColdPauseLabel)) {
    CO_TRY_VOID(co_await provider_.set_label(info.id, kColdPauseLabel, cold ? "yes" : ""));
  }
  if (auto paused = co_await provider_.pause(info.id); !paused) {
    if (cold) (void)co_await provider_.set_label(info.id, kColdPauseLabel, "");
    co_return std::move(paused).error();
  }
  // A paused sandbox waits for its owner, however long that takes.
  auto endless =
      co_await provider_.set_lifetime(info.id, Milliseconds(0), info.limits.pause_at_end);
  if (!endless) {
    (void)co_await provider_.resume(info.id);
    co_return std::move(endless).error();
  }
  // Somebody woke it meanwhile: what runs has an end.
  if (endless->state == State::kRunning) {
    CO_TRY_VOID(
        co_await provider_.set_lifetime(info.id, kTimeoutDefault, info.limits.pause_at_end));
  }
  co_return empty_response();
}

// ---- copies

Task<Result<SandboxInfo>> ControlPlane::fork_one(const Caller& caller, const SandboxInfo& from,
                                                 Milliseconds timeout, std::string checkpoint) {
  sandbox::CreateRequest create{.id = make_sandbox_id(),
                                .template_name = from.template_name,
                                .hostname = kHostname,
                                .labels = from.labels,
                                .limits = from.limits};
  create.limits.lifetime_max = timeout;
  create.keep_checkpoint = std::move(checkpoint);
  // What else its environment holds, the warden takes over.
  put_identity(create.id, read_particulars(from).template_id, create.environment);
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
  if (from.state == State::kPaused)
    co_return make_error(ErrorCode::kConflict, "fork", "Sandbox is paused; resume it first");
  // All of them have the files of one moment, and only the first one costs the origin something.
  const std::string checkpoint = count > 1 ? "fork-" + random_text(12) : std::string();
  Json made = Json::array();
  std::optional<Error> none;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto info =
        co_await fork_one(request.caller, from, timeout.value_or(kTimeoutDefaultOld), checkpoint);
    if (info) {
      made.push_back({{"sandbox", sandbox_json(*info, settings_.domain)}});
      continue;
    }
    // What keeps the first one from being made would keep all: nothing was forked.
    if (i == 0) {
      none = info.error();
      break;
    }
    const http::Response refused = refusal(info.error());
    made.push_back({{"error", {{"code", refused.status}, {"message", info.error().message}}}});
  }
  if (!checkpoint.empty()) {
    const auto let_go = co_await provider_.commit(from.id, checkpoint);
    if (!let_go && let_go.error().code != ErrorCode::kNotFound)
      LOG_WARN("what forks stand on stays", {"error", let_go.error()});
  }
  if (none) co_return *std::move(none);
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
