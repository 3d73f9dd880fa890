#include "pons/supervisor/supervisor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <ranges>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "door_certificate.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/base/version.h"
#include "pons/http/error_status.h"
#include "pons/http/router.h"
#include "pons/http/server.h"
#include "pons/linux/capabilities.h"
#include "pons/linux/notify.h"
#include "pons/linux/process.h"
#include "pons/linux/signals.h"
#include "pons/linux/tcp.h"
#include "pons/linux/unix_socket.h"
#include "pons/telemetry/page.h"
#include "process_page.h"
#include "role_process.h"
#include "sealed_memory.h"
#include "state_dir.h"

namespace pons::supervisor {

namespace {

using roles::Role;

struct Channel {
  Role caller;
  Role callee;
  linux::SocketPair ends;  // first: the caller's
};

// Everything that outlives single roles.
class Supervisor {
 public:
  static Result<std::unique_ptr<Supervisor>> create(const config::Config& config,
                                                    const ForRoles& for_roles);
  // Until all roles have ended; the reason when they could not be kept running.
  std::optional<std::string> run();

 private:
  Supervisor(const config::Config& config, const ForRoles& for_roles, StateDir state_dir,
             Secret token)
      : config_(config),
        for_roles_(for_roles),
        state_dir_(std::move(state_dir)),
        token_(std::move(token)) {}
  Result<void> open_sockets();
  Result<void> open_control(linux::UniqueFd listener);
  Result<roles::RoleStart> prepare_start(Role role);
  Task<> live();
  Task<> start_roles(linux::TaskGroup& group);
  Task<> supervise(RoleProcess& role);
  Task<> announce_when_ready();
  Task<> stop_on_signal();
  Task<> stop_all();
  void remove_control_sockets();
  void print_banner();
  bool all_ready() const;
  std::string figures() const;
  Task<> answer_status(http::Exchange& exchange);
  Task<> answer_kept(http::Exchange& exchange);
  Task<> answer_metrics(http::Exchange& exchange);
  Task<> answer_down(http::Exchange& exchange);
  Task<> answer_reload(http::Exchange& exchange);
  Task<> reload_quietly();
  void ask_to_stop(int times);

  const config::Config& config_;
  const ForRoles& for_roles_;
  StateDir state_dir_;
  Secret token_;
  bool on_terminal_ = isatty(STDOUT_FILENO) == 1 || isatty(STDERR_FILENO) == 1;
  TimePoint started_ = TimePoint(std::chrono::steady_clock::now());
  linux::UniqueFd executable_;
  linux::UniqueFd public_listener_;
  linux::UniqueFd model_listener_;    // the gateway's, for trusted networks; none unless configured
  linux::UniqueFd metrics_listener_;  // the front's, for programs that watch; likewise
  config::ListenAddress listening_on_;
  std::map<Role, linux::UniqueFd> control_listeners_;
  std::vector<Channel> channels_;
  std::optional<linux::SignalFd> signals_;
  std::unique_ptr<linux::Loop> loop_;
  std::unique_ptr<http::Server> control_;
  std::optional<DoorCertificate> certificate_;
  std::vector<std::unique_ptr<RoleProcess>> roles_;
  std::optional<std::string> failure_;
  std::optional<linux::Event> stop_asked_;
};

Result<config::ListenAddress> bound_address(const linux::UniqueFd& listener,
                                            config::ListenAddress asked) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return os_error("read listening address");
  // sin_port and sin6_port stand at the same place.
  asked.port = ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return asked;
}

std::string log_requests(config::LoggedRequests which) {
  switch (which) {
    case config::LoggedRequests::kNone:
      return "none";
    case config::LoggedRequests::kFailed:
      return "failed";
    case config::LoggedRequests::kAll:
      break;
  }
  return "all";
}

// A Pons that was killed leaves its socket files, and its roles live on for the moment that the
// kernel takes to kill them, with the same sockets and the port in their hands.
class FormerPons {
 public:
  explicit FormerPons(const std::string& state_dir)
      : patience_(was_killed(state_dir) ? kDyingTime : Duration::zero()) {}

  // Listens, once the former one's roles are gone.
  template <typename Listen>
  Result<linux::UniqueFd> outlive(Listen listen) const {
    for (;;) {
      auto listener = listen();
      const bool taken = !listener && listener.error().code == ErrorCode::kConflict;
      if (!taken || std::chrono::steady_clock::now() - start_ >= patience_) return listener;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  static constexpr Duration kDyingTime = std::chrono::seconds(3);
  static bool was_killed(const std::string& state_dir) {
    return access(control_socket_path(state_dir, "supervisor").c_str(), F_OK) == 0;
  }
  TimePoint start_ = std::chrono::steady_clock::now();
  Duration patience_;
};

// ---- start

Result<std::unique_ptr<Supervisor>> Supervisor::create(const config::Config& config,
                                                       const ForRoles& for_roles) {
  TRY_VOID(config::check_exposure(config));
  TRY_VOID(linux::raise_descriptor_limit());
  TRY_VOID(linux::disable_core_dumps());
  TRY_VOID(linux::set_undumpable());
  linux::ignore_sigpipe();
  auto state_dir = TRY(StateDir::open(config.state_dir));
  auto token = TRY(state_dir.ensure_admin_token());
  std::unique_ptr<Supervisor> self(
      new Supervisor(config, for_roles, std::move(state_dir), std::move(token)));
  // Kept open: roles are restarted from the same binary even when its file has been replaced.
  self->executable_ = TRY(linux::open_file("/proc/self/exe", O_RDONLY));
  self->signals_.emplace(TRY(linux::SignalFd::create({SIGTERM, SIGINT, SIGHUP})));
  self->loop_ = TRY(linux::Loop::create());
  self->stop_asked_.emplace(*self->loop_);
  if (config.tls.is_set()) {
    self->certificate_.emplace(*self->loop_, config.tls,
                               control_socket_path(self->state_dir_.path(), "front"));
    TRY_VOID(self->certificate_->read_files());
  }
  TRY_VOID(self->open_sockets());
  if (geteuid() == 0) TRY_VOID(linux::keep_only_capabilities(roles::supervisor_capabilities()));
  for (const roles::Profile& profile : roles::profiles())
    self->roles_.push_back(std::make_unique<RoleProcess>(
        *self->loop_, profile.role, config.supervisor, self->executable_.get(),
        [supervisor = self.get(), role = profile.role] {
          return supervisor->prepare_start(role);
        }));
  return self;
}

Result<void> Supervisor::open_sockets() {
  const FormerPons former(state_dir_.path());
  const auto listen_for_operator = [&](std::string_view process) {
    return former.outlive(
        [&] { return linux::listen_unix(control_socket_path(state_dir_.path(), process), 0600); });
  };
  public_listener_ = TRY(former.outlive(
      [this] { return linux::listen_tcp(config_.listen.address, config_.listen.port); }));
  listening_on_ = TRY(bound_address(public_listener_, config_.listen));
  if (const auto address = config::listen_address_of(config_.gateway))
    model_listener_ =
        TRY(former.outlive([&] { return linux::listen_tcp(address->address, address->port); }));
  if (const auto address = config::listen_address_of(config_.metrics))
    metrics_listener_ =
        TRY(former.outlive([&] { return linux::listen_tcp(address->address, address->port); }));
  for (const roles::Profile& profile : roles::profiles()) {
    if (profile.role != Role::kSpawner)
      control_listeners_[profile.role] = TRY(listen_for_operator(profile.name));
    for (const Role callee : profile.may_dial)
      channels_.push_back({profile.role, callee, TRY(linux::create_socket_pair(SOCK_SEQPACKET))});
  }
  return open_control(TRY(listen_for_operator("supervisor")));
}

Result<void> Supervisor::open_control(linux::UniqueFd listener) {
  const auto bind = [this](Task<> (Supervisor::*answer)(http::Exchange&)) {
    return [this, answer](http::Exchange& exchange, const http::PathValues&) {
      return (this->*answer)(exchange);
    };
  };
  control_ = std::make_unique<http::Server>(
      *loop_, http::ServerLimits{.body_bytes = 4096, .connections = 64},
      http::route({{"GET", "/status", bind(&Supervisor::answer_status)},
                   {"GET", "/kept", bind(&Supervisor::answer_kept)},
                   {"GET", "/metrics", bind(&Supervisor::answer_metrics)},
                   {"POST", "/reload", bind(&Supervisor::answer_reload)},
                   {"POST", "/down", bind(&Supervisor::answer_down)}}));
  return control_->listen(std::move(listener), "operator");
}

// What a role gets: copies of the sockets that are its own, and the settings it needs.
Result<roles::RoleStart> Supervisor::prepare_start(Role role) {
  roles::RoleStart start;
  start.role = role;
  start.confinement = {.state_dir = state_dir_.path(),
                       .supervisor = getpid(),
                       .landlock = config_.confinement.landlock == config::LandlockRule::kRequired
                                       ? roles::LandlockNeed::kRequired
                                       : roles::LandlockNeed::kBestEffort};
  start.log_level = log_settings().level;
  start.log_format = log_settings().format;
  start.log_color = log_settings().color;
  start.drain_seconds = static_cast<int>(config_.supervisor.drain_seconds);
  if (const auto control = control_listeners_.find(role); control != control_listeners_.end())
    start.descriptors.emplace("control", TRY(linux::duplicate(control->second.get())));
  for (const Channel& channel : channels_) {
    if (channel.caller == role)
      start.descriptors.emplace(fmt::format("dial:{}", roles::name_of(channel.callee)),
                                TRY(linux::duplicate(channel.ends.first.get())));
    if (channel.callee == role)
      start.descriptors.emplace(fmt::format("from:{}", roles::name_of(channel.caller)),
                                TRY(linux::duplicate(channel.ends.second.get())));
  }
  if (role == Role::kFront) {
    start.descriptors.emplace("public", TRY(linux::duplicate(public_listener_.get())));
    if (certificate_) start.descriptors.emplace("tls", TRY(certificate_->for_front()));
    if (metrics_listener_)
      start.descriptors.emplace("metrics", TRY(linux::duplicate(metrics_listener_.get())));
    start.values = {{"admin_token_sha256", sha256_hex(token_.reveal())},
                    {"domain", config_.domain},
                    {"allowed_origins", config_.allowed_origins},
                    {"log_requests", log_requests(config_.log.requests)},
                    {"header_bytes", fmt::format("{}", config_.limits.header_bytes)},
                    {"header_count", fmt::format("{}", config_.limits.header_count)},
                    {"body_bytes", fmt::format("{}", config_.limits.body_bytes)},
                    {"connections", fmt::format("{}", config_.limits.connections)},
                    {"header_seconds", fmt::format("{}", config_.limits.header_seconds)},
                    {"idle_seconds", fmt::format("{}", config_.limits.idle_seconds)},
                    {"body_idle_seconds", fmt::format("{}", config_.limits.body_idle_seconds)}};
  }
  if (role == Role::kBrain) start.values = for_roles_.brain;
  if (role == Role::kGateway) {
    start.values = for_roles_.gateway;
    start.descriptors.emplace("model_keys",
                              TRY(seal_in_memory("pons-model-keys", for_roles_.model_keys)));
    if (!for_roles_.otlp_headers.empty())
      start.descriptors.emplace("otlp_headers",
                                TRY(seal_in_memory("pons-otlp-headers", for_roles_.otlp_headers)));
    if (!for_roles_.database_password.empty())
      start.descriptors.emplace(
          "database_password",
          TRY(seal_in_memory("pons-database-password", for_roles_.database_password)));
    if (model_listener_)
      start.descriptors.emplace("models", TRY(linux::duplicate(model_listener_.get())));
  }
  if (role == Role::kWarden) {
    const config::SandboxConfig& sandbox = config_.sandbox;
    start.values = {
        {"pool_memory_mb", fmt::format("{}", sandbox.pool_memory_mb)},
        {"warm_min", fmt::format("{}", sandbox.warm_min)},
        {"warm_max", fmt::format("{}", sandbox.warm_max)},
        {"sandboxes_max", fmt::format("{}", sandbox.sandboxes_max)},
        {"memory_mb", fmt::format("{}", sandbox.memory_mb)},
        {"cpu_percent", fmt::format("{}", sandbox.cpu_percent)},
        {"pids", fmt::format("{}", sandbox.pids)},
        {"io_read_mb_per_second", fmt::format("{}", sandbox.io_read_mb_per_second)},
        {"io_write_mb_per_second", fmt::format("{}", sandbox.io_write_mb_per_second)},
        {"io_read_operations_per_second", fmt::format("{}", sandbox.io_read_operations_per_second)},
        {"io_write_operations_per_second",
         fmt::format("{}", sandbox.io_write_operations_per_second)}};
  }
  if (role == Role::kEgress) {
    Json environments = Json::object();
    for (const auto& [name, document] : config_.environments) environments[name] = document;
    start.values = for_roles_.egress;
    start.values["environments"] = dump_json(environments);
    start.values["domain"] = config_.domain;
  }
  return start;
}

// ---- life

std::optional<std::string> Supervisor::run() {
  loop_->spawn(live());
  loop_->run();
  return failure_;
}

Task<> Supervisor::live() {
  linux::TaskGroup work(*loop_);
  work.spawn(stop_on_signal());
  work.spawn(announce_when_ready());
  work.spawn(start_roles(work));
  if (certificate_) work.spawn(certificate_->follow());
  if (metrics_listener_)
    work.spawn(keep_telling_front(*loop_, control_socket_path(state_dir_.path(), "front"),
                                  [this] { return figures(); }));
  co_await stop_asked_->wait(kNever);
  co_await stop_all();
  loop_->stop();
}

// Egress first: what it lays out for sandboxes to trust is part of every one that the spawner
// makes.
Task<> Supervisor::start_roles(linux::TaskGroup& group) {
  RoleProcess& egress = *roles_[static_cast<std::size_t>(Role::kEgress)];
  group.spawn(supervise(egress));
  co_await egress.ready().wait(kNever);
  for (auto& role : roles_)
    if (role.get() != &egress) group.spawn(supervise(*role));
}

Task<> Supervisor::supervise(RoleProcess& role) {
  if (auto gave_up = co_await role.supervise()) {
    failure_ = std::move(gave_up);
    stop_asked_->set();
  }
}

Task<> Supervisor::announce_when_ready() {
  for (auto& role : roles_) co_await role->ready().wait(kNever);
  linux::notify_supervisor(fmt::format("READY=1\nSTATUS=listening on {}", listening_on_.text()));
  print_banner();
}

Task<> Supervisor::stop_on_signal() {
  auto watch = linux::Watch::create(*loop_, signals_->fd());
  CHECK(watch.has_value());
  linux::TaskGroup reloads(*loop_);
  for (int times = 0;;) {
    const auto number = signals_->take();
    if (!number) {
      co_await watch->readable(kNever);
    } else if (*number == SIGHUP && !on_terminal_) {
      reloads.spawn(reload_quietly());
    } else {
      ask_to_stop(++times);  // also for a terminal that is gone: it ends what was started there
    }
  }
}

void Supervisor::ask_to_stop(int times) {
  stop_asked_->set();
  // Whoever asks twice does not want to wait for the drain. The spawner drains nothing, but
  // without its own end sandboxes would be left behind.
  for (auto& role : roles_)
    if (times > 2 || (times == 2 && role->role() != Role::kSpawner)) role->end_now();
}

// The door first, so that nothing new comes in; then whoever the others lean on last.
Task<> Supervisor::stop_all() {
  linux::notify_supervisor("STOPPING=1");
  // The front closes its own copy when it drains; with both gone the kernel refuses new clients
  // instead of letting them wait for an answer that never comes.
  public_listener_.reset();
  metrics_listener_.reset();
  // What a role drains with leaves a moment for whoever comes after it.
  const TimePoint deadline = loop_->now() + std::chrono::seconds(config_.supervisor.drain_seconds);
  constexpr Duration kForTheNext = std::chrono::milliseconds(250);
  const auto stop = [this](Role role, TimePoint until) {
    return roles_[static_cast<std::size_t>(role)]->stop(until);
  };
  co_await stop(Role::kFront, deadline - 2 * kForTheNext);
  {
    linux::TaskGroup middle(*loop_);
    for (const Role role : {Role::kBrain, Role::kGateway, Role::kEgress, Role::kWarden})
      middle.spawn(stop(role, std::max(deadline - kForTheNext, loop_->now() + kForTheNext)));
    co_await middle.wait_until_empty(kNever);  // each ends at its deadline
  }
  co_await stop(Role::kSpawner, std::max(deadline, loop_->now() + kForTheNext));
  co_await control_->drain(loop_->now() + std::chrono::milliseconds(500));
  remove_control_sockets();
}

// Nobody else makes sockets here while this process holds the lock of the state directory.
void Supervisor::remove_control_sockets() {
  unlink(control_socket_path(state_dir_.path(), "supervisor").c_str());
  for (const Role role : control_listeners_ | std::views::keys)
    unlink(control_socket_path(state_dir_.path(), roles::name_of(role)).c_str());
}

void Supervisor::print_banner() {
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(loop_->now() - started_);
  const std::string token_path = state_dir_.admin_token_path();
  const std::string address = listening_on_.text();
  fmt::print("Pons {} is ready after {} ms\n\n", version(), took.count());
  const std::string url = fmt::format("{}://{}", certificate_ ? "https" : "http", address);
  fmt::print("  listening on   {}\n", url);
  // On a terminal the operator may want to copy it; in a log it has no business.
  if (isatty(STDOUT_FILENO) == 1) fmt::print("  admin token    {}\n", token_.reveal());
  fmt::print("  token file     {} (mode 0600)\n", token_path);
  fmt::print("  try            curl -H \"Authorization: Bearer $(cat {})\" {}/x/status\n",
             token_path, url);
  fmt::print("  give a task    pons run --state-dir {} \"what can you do?\"\n", state_dir_.path());
  fmt::print("  stop           Ctrl-C, or pons down\n\n");
  std::fflush(stdout);
}

// ---- what the operator asks

bool Supervisor::all_ready() const {
  return std::ranges::all_of(
      roles_, [](const auto& role) { return role->state() == RoleProcess::State::kReady; });
}

Task<> Supervisor::answer_status(http::Exchange& exchange) {
  const auto milliseconds_since = [this](TimePoint when) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(loop_->now() - when).count();
  };
  Json list = Json::array();
  for (const auto& role : roles_) {
    list.push_back({{"role", roles::name_of(role->role())},
                    {"state", to_string(role->state())},
                    {"pid", role->pid()},
                    {"uptime_ms", milliseconds_since(role->since())},
                    {"restarts", role->restarts()},
                    {"rss_bytes", linux::resident_bytes(role->pid()).value_or(0)},
                    {"kept_descriptors", role->kept_descriptors()},
                    {"last_exit", role->last_exit()}});
  }
  exchange.respond({.body = dump_json({{"version", version()},
                                       {"ready", all_ready()},
                                       {"pid", getpid()},
                                       {"uptime_ms", milliseconds_since(started_)},
                                       {"rss_bytes", linux::resident_bytes(getpid()).value_or(0)},
                                       {"listen", listening_on_.text()},
                                       {"tls", certificate_.has_value()},
                                       {"state_dir", state_dir_.path()},
                                       {"roles", std::move(list)}}) +
                            "\n"});
  co_return;
}

// For `pons doctor --leaks`: /proc shows what the numbers are, and only here is it known whose.
Task<> Supervisor::answer_kept(http::Exchange& exchange) {
  Json kept = Json::array();
  for (const auto& role : roles_)
    for (const auto& [name, descriptor] : role->kept().items())
      kept.push_back(
          {{"role", roles::name_of(role->role())}, {"name", name}, {"number", descriptor.get()}});
  exchange.respond({.body = dump_json({{"kept", std::move(kept)}}) + "\n"});
  co_return;
}

std::string Supervisor::figures() const {
  std::vector<WatchedProcess> processes = {{.name = "supervisor", .pid = getpid(), .ready = true}};
  for (const auto& role : roles_)
    processes.push_back({.name = roles::name_of(role->role()),
                         .pid = role->pid(),
                         .ready = role->state() == RoleProcess::State::kReady,
                         .restarts = role->restarts(),
                         .kept_descriptors = role->kept_descriptors()});
  return process_page(processes);
}

Task<> Supervisor::answer_metrics(http::Exchange& exchange) {
  exchange.respond({.content_type = std::string(telemetry::kPageType), .body = figures()});
  co_return;
}

// Of everything that is set, the certificate alone can be read again.
Task<> Supervisor::answer_reload(http::Exchange& exchange) {
  const auto answer = [&](std::string_view certificate) {
    exchange.respond({.body = dump_json({{"certificate", certificate}}) + "\n"});
  };
  if (!certificate_) {
    answer("none");
    co_return;
  }
  const auto reloaded = co_await certificate_->reload();
  if (!reloaded) {
    exchange.respond(http::error_response(reloaded.error()));
  } else {
    answer(*reloaded == DoorCertificate::Outcome::kReplaced ? "replaced" : "unchanged");
  }
}

Task<> Supervisor::reload_quietly() {
  if (certificate_) (void)co_await certificate_->reload();  // which says how it went
}

Task<> Supervisor::answer_down(http::Exchange& exchange) {
  exchange.respond({.status = 202, .body = "{\"stopping\":true}\n"});
  stop_asked_->set();
  co_return;
}

}  // namespace

Result<linux::UniqueFd> hold_state_dir(const std::string& state_dir) {
  return TRY(StateDir::open(state_dir)).release_lock();
}

std::string control_socket_path(const std::string& state_dir, std::string_view process) {
  return fmt::format("{}/run/{}.sock", state_dir, process);
}

Result<void> run_supervisor(const config::Config& config, const ForRoles& for_roles) {
  auto supervisor = TRY(Supervisor::create(config, for_roles));
  if (auto failure = supervisor->run())
    return make_error(ErrorCode::kUnavailable, "start Pons", std::move(*failure));
  return {};
}

}  // namespace pons::supervisor
