#include "pons/supervisor/role_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/version.h"
#include "pons/roles/attempts.h"
#include "pons/roles/channel.h"
#include "pons/roles/keeper.h"
#include "pons/supervisor/self_test_json.h"

namespace pons::supervisor {

namespace {

constexpr std::string_view kOperator = "operator";

// Conversation between our own processes: short and local.
http::ServerLimits control_limits(std::uint64_t body_bytes) {
  return {.body_bytes = body_bytes,
          .connections = 4 * kConnectionsPerRole,
          .connections_per_role = kConnectionsPerRole,  // one for every job that is followed
          .idle_time = std::chrono::seconds(300),
          // Front passes on what its clients write as they write it, and ends it when they stop.
          .body_idle_time = std::chrono::hours(2)};
}

Task<Result<std::unique_ptr<http::Transport>>> dial_transport(linux::Loop& loop, int channel) {
  CO_TRY(auto socket, roles::dial(channel));
  co_return http::create_plain_transport(loop, std::move(socket));
}

Task<> answer_health(http::Exchange& exchange) {
  exchange.respond({.body = "{\"status\":\"ok\"}\n"});
  co_return;
}

}  // namespace

bool refuse_unless_operator(http::Exchange& exchange) {
  if (exchange.peer().role == kOperator) return false;
  exchange.respond(http::error_response(403, "denied", "only the operator may ask for this"));
  return true;
}

Result<std::unique_ptr<RoleRuntime>> RoleRuntime::create(roles::RoleStart start) {
  // Before confinement, so that no signal is lost: threads inherit the mask.
  auto signals = TRY(linux::SignalFd::create({SIGTERM, SIGINT}));
  linux::ignore_sigpipe();
  auto confinement = TRY(roles::confine(roles::profile_of(start.role), start.confinement));
  auto loop = TRY(linux::Loop::create());
  return std::unique_ptr<RoleRuntime>(new RoleRuntime(std::move(start), std::move(confinement),
                                                      std::move(loop), std::move(signals)));
}

RoleRuntime::RoleRuntime(roles::RoleStart start, std::vector<roles::ConfinementStep> confinement,
                         std::unique_ptr<linux::Loop> loop, linux::SignalFd signals)
    : start_(std::move(start)),
      confinement_(std::move(confinement)),
      loop_(std::move(loop)),
      signals_(std::move(signals)),
      started_(loop_->now()),
      keeper_(start_.descriptors.find("keeper")->second.get()),
      to_roles_(start_.take_all("dial:")),
      from_roles_(start_.take_all("from:")) {
  for (const auto& step : confinement_)
    if (!step.note.empty())
      LOG_WARN("confinement is weaker than it could be", {"step", step.name}, {"why", step.note});
  add_routes({
      {"GET", "/healthz",
       [](http::Exchange& e, const http::PathValues&) { return answer_health(e); }},
      {"GET", "/identity",
       [this](http::Exchange& e, const http::PathValues&) { return answer_identity(e); }},
      {"POST", "/selftest",
       [this](http::Exchange& e, const http::PathValues&) { return answer_self_test(e); }},
      {"GET", "/metrics",
       [this](http::Exchange& e, const http::PathValues&) { return answer_metrics(e); }},
  });
  metrics_.add([](telemetry::Page& page) {
    page.begin("pons_build_info", telemetry::Page::Type::kGauge,
               "The version that runs; always 1.");
    page.add({{"version", version()}}, 1);
  });
}

RoleRuntime::~RoleRuntime() = default;

int RoleRuntime::channel_to(roles::Role role) {
  const auto channel = to_roles_.find(roles::name_of(role));
  CHECK(channel != to_roles_.end());
  return channel->second.get();
}

http::Connector RoleRuntime::connector_to(roles::Role role) {
  return [this, fd = channel_to(role)](TimePoint) { return dial_transport(*loop_, fd); };
}

http::Client& RoleRuntime::client_to(roles::Role role) {
  auto& client = clients_[role];
  if (client == nullptr) {
    client = std::make_unique<http::Client>(
        *loop_, connector_to(role), std::string(roles::name_of(role)),
        http::ClientLimits{.first_byte_time = std::chrono::seconds(5)});
  }
  return *client;
}

void RoleRuntime::measure(const http::Server& server, std::string_view listener) {
  metrics_.add([&server, listener](telemetry::Page& page) {
    http::write_counts(page, listener, server.counts(), server.connection_count());
  });
}

void RoleRuntime::add_routes(std::vector<http::Route> routes) {
  std::ranges::move(routes, std::back_inserter(routes_));
}

Result<void> RoleRuntime::open_control() {
  control_ = std::make_unique<http::Server>(*loop_, control_limits(body_bytes_max_),
                                            http::route(std::move(routes_)));
  drain_at_end(*control_);
  measure(*control_, "control");
  TRY_VOID(control_->listen(start_.take("control"), std::string(kOperator)));
  for (const auto& [caller, channel] : from_roles_) {
    const std::string role = caller;
    loop_->spawn(roles::accept_dialled(*loop_, channel.get(), [this, role](roles::Dialled dialled) {
      http::Peer peer{.role = role};
      if (!dialled.along.empty())
        peer.descriptors = std::make_shared<std::vector<linux::UniqueFd>>(std::move(dialled.along));
      if (auto served = control_->serve(std::move(dialled.socket), std::move(peer)); !served)
        LOG_WARN("refused a connection", {"from", role}, {"error", served.error()});
    }));
  }
  return {};
}

int RoleRuntime::run() {
  Result<void> opened = open_control();
  if (opened) opened = keeper_.say_ready();
  if (!opened) {
    LOG_ERROR("cannot start", {"error", opened.error()});
    return 1;
  }
  LOG_DEBUG("ready");
  loop_->spawn(wait_for_end());
  loop_->run();
  return 0;
}

Task<> RoleRuntime::wait_for_end() {
  auto watch = linux::Watch::create(*loop_, signals_.fd());
  CHECK(watch.has_value());
  while (!signals_.take()) co_await watch->readable(kNever);
  // A little less than the supervisor's patience: better an end of its own than a kill.
  const TimePoint deadline =
      loop_->now() + std::chrono::seconds(start_.drain_seconds) - std::chrono::milliseconds(750);
  // Half of the time is for the requests, the rest for what must be done after them.
  const auto kept = std::chrono::milliseconds(last_work_ ? 500 * start_.drain_seconds : 0);
  for (http::Server* server : servers_) co_await server->drain(deadline - kept);
  if (last_work_) co_await last_work_(deadline);
  loop_->stop();
}

Task<> RoleRuntime::answer_identity(http::Exchange& exchange) {
  // Egress carries requests of sandboxes here: what a role is like is none of their business.
  if (exchange.request().find("X-Pons-Sandbox")) {
    exchange.respond(http::error_response(404, "not_found", "there is nothing here"));
    co_return;
  }
  Json steps = Json::array();
  for (const auto& step : confinement_)
    steps.push_back({{"step", step.name}, {"done", step.done}, {"note", step.note}});
  const auto uptime =
      std::chrono::duration_cast<std::chrono::milliseconds>(loop_->now() - started_);
  exchange.respond({.body = dump_json({{"role", roles::name_of(start_.role)},
                                       {"pid", getpid()},
                                       {"version", version()},
                                       {"uptime_ms", uptime.count()},
                                       {"confinement", steps}}) +
                            "\n"});
  co_return;
}

// Only over the control socket, whose file only the operator may open: other roles have no business
// in it.
Task<> RoleRuntime::answer_self_test(http::Exchange& exchange) {
  if (refuse_unless_operator(exchange)) co_return;
  const auto results =
      roles::run_self_test(roles::profile_of(start_.role),
                           {start_.confinement.state_dir, start_.confinement.supervisor});
  exchange.respond({.body = dump_json(self_test_json(start_.role, results)) + "\n"});
}

// Numbers without names: the front may have them, for its listener for programs that watch. Others
// carry requests of sandboxes, to whom they are no business.
Task<> RoleRuntime::answer_metrics(http::Exchange& exchange) {
  if (exchange.peer().role != "front" && refuse_unless_operator(exchange)) co_return;
  exchange.respond({.content_type = std::string(telemetry::kPageType), .body = metrics_.text()});
}

}  // namespace pons::supervisor
