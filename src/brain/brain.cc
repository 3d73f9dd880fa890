#include "pons/brain/brain.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "database_stream.h"
#include "egress_boundary.h"
#include "furnished_hands.h"
#include "gateway_model.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/brain/warden_hands.h"
#include "pons/files/file_store.h"
#include "pons/linux/run_task.h"
#include "pons/managed/deployment_api.h"
#include "pons/managed/file_routes.h"
#include "pons/managed/managed.h"
#include "pons/managed/memory_routes.h"
#include "pons/mcp/server.h"
#include "pons/memory/memory_stores.h"
#include "pons/sandbox/remote.h"
#include "pons/session/agents.h"
#include "pons/session/store_log.h"
#include "pons/store/backup_route.h"
#include "pons/store/measured_store.h"
#include "pons/store/postgres_store.h"
#include "pons/store/sqlite_store.h"
#include "pons/supervisor/role_runtime.h"
#include "recorded_hands.h"
#include "routes.h"
#include "sandbox_bills.h"
#include "sandbox_toolbox.h"
#include "session_metrics.h"
#include "trace_sender.h"
#include "vault_finder.h"

namespace pons::brain {

namespace {

// Below the role's own folder, which is its working directory.
constexpr const char* kStoreFile = "pons.db";

using roles::Role;

// A message may carry images.
constexpr store::StoreLimits kStoreLimits{.value_bytes = 16ULL << 20,
                                          .transaction_bytes = 64ULL << 20};
// A file, and the form around it. Whoever reads another body whole says how long it may be.
constexpr std::uint64_t kBodyBytesMax = (files::FileLimits{}.bytes) + (64 << 10);

// 0: what the operator has set. One that nobody uses for so long was forgotten by somebody.
constexpr sandbox::Limits kSandboxLimits{
    .memory_bytes = 0, .cpu_percent = 0, .pids = 0, .idle_max = std::chrono::hours(6)};

// {"agents": {NAME: DOCUMENT}, "model": NAME}
Result<Agents> agents_of(const std::map<std::string, std::string>& values) {
  const auto settings = values.find("agents");
  if (settings == values.end()) return session::read_agents({}, "demo");
  const Json json = TRY(parse_json(settings->second));
  return session::read_agents(json.at("agents").get<std::map<std::string, std::string>>(),
                              json.at("model").get<std::string>());
}

// Exactly one of them.
struct Stores {
  std::unique_ptr<store::SqliteStore> file;
  std::unique_ptr<store::PostgresStore> database;
  store::Store* used() const {
    if (database) return database.get();
    return file.get();
  }
};

Result<Stores> open_stores(supervisor::RoleRuntime& runtime, const std::string& shown) {
  Stores stores;
  const auto database = runtime.start().values.find("database");
  if (database == runtime.start().values.end()) {
    stores.file = TRY(store::SqliteStore::open(
        runtime.loop(), {.path = kStoreFile, .shown = shown, .limits = kStoreLimits}));
    return stores;
  }
  store::PostgresOptions options{
      .open = open_through_gateway(runtime.loop(), runtime.channel_to(Role::kGateway)),
      .shown = database->second,
      .limits = kStoreLimits,
      .is_only_user = true};
  options.limits.queued_bytes = 2 * kStoreLimits.transaction_bytes;
  stores.database = TRY(linux::run_to_end(
      runtime.loop(), store::PostgresStore::open(runtime.loop(), std::move(options))));
  return stores;
}

Task<Result<std::vector<ApiKey>>> prepare(Memory& memory) {
  CO_TRY_VOID(co_await memory.projects.ensure_default());
  co_return co_await memory.keys.active();
}

Task<Result<void>> tell_limits(Memory& memory, KeyFeed& feed) {
  CO_TRY(const auto projects, co_await memory.projects.list());
  for (const Project& project : projects)
    if (project.limits.requests_per_second)
      feed.limit(project.id, project.limits.requests_per_second);
  co_return {};
}

// Only egress knows what is a credential.
Task<Result<std::vector<std::string>>> credentials_in(session::Boundary& boundary,
                                                      std::string text) {
  CO_TRY(auto redaction, co_await boundary.redact({.text = std::move(text)}));
  co_return std::move(redaction.redacted);
}

// What a process that was killed has left of deleted stores.
Task<> sweep_memory(memory::MemoryStores& memories) {
  if (const auto swept = co_await memories.sweep(); !swept)
    LOG_WARN("deleted memory stores are not removed yet", {"error", swept.error()});
}

Task<> sweep_files(linux::Loop& loop, files::FileStore& files) {
  for (;;) {
    if (const auto swept = co_await files.sweep(); !swept)
      LOG_WARN("files that are over are not removed yet", {"error", swept.error()});
    co_await loop.sleep_for(std::chrono::minutes(1));
  }
}

bool has_ended_turn(const std::vector<session::StoredEvent>& events) {
  return std::ranges::any_of(events, [](const session::StoredEvent& stored) {
    return std::holds_alternative<session::TurnEnded>(stored.event);
  });
}

Result<int> run(roles::RoleStart start) {
  const std::string shown = store_path(start.confinement.state_dir);
  const auto runtime = TRY(supervisor::RoleRuntime::create(std::move(start)));
  unlink(store::kBackupFile);  // of a process that was killed while it made one
  const SystemClock clock;
  linux::Loop& loop = runtime->loop();
  const Stores stores = TRY(open_stores(*runtime, shown));
  store::Store* const store = stores.used();
  Memory memory{.store = *store, .file = stores.file.get(), .clock = clock};
  const auto keys = TRY(linux::run_to_end(loop, prepare(memory)));
  KeyFeed feed(loop, keys);
  TRY_VOID(linux::run_to_end(loop, tell_limits(memory, feed)));
  runtime->add_routes(front_routes(memory, feed));
  runtime->add_routes(operator_routes(memory, feed));

  GatewayModel model(loop, runtime->connector_to(Role::kGateway));
  sandbox::RemoteProvider sandboxes(loop, runtime->connector_to(Role::kWarden));
  WardenHands warden_hands(loop, sandboxes, kSandboxLimits);
  RecordedHands recorded_hands(warden_hands, memory.records, clock);
  store::MeasuredStore measured(*store, clock);
  files::FileStore files(measured, clock);
  FurnishedHands hands(loop, recorded_hands, sandboxes, files);
  SandboxBills bills(loop, runtime->connector_to(Role::kGateway), memory.records, clock);
  EgressBoundary boundary(loop, runtime->connector_to(Role::kEgress));
  session::StoreLog log(measured, clock, "brain");
  session::Sessions sessions(loop, clock, log, model, hands, boundary);
  Minds minds{.sessions = sessions,
              .boundary = boundary,
              .agents = TRY(agents_of(runtime->start().values))};
  runtime->add_routes(session_routes(minds));
  managed::ManagedApi api(measured, clock, sessions);
  const managed::VaultFinder vaults = vault_finder(runtime->client_to(Role::kEgress));
  api.use_vaults(vaults);
  hands.find_files_with([&api](std::string project, std::string session) {
    return api.files_of(std::move(project), std::move(session));
  });
  runtime->add_routes(api.routes());
  SandboxToolbox toolbox(loop, hands, boundary, sandboxes, minds.agents.at("default"));
  mcp::Server mcp_server(loop, toolbox);
  runtime->add_routes(mcp_routes(mcp_server));
  memory::MemoryStores memories(measured, clock, [&boundary](std::string text) {
    return credentials_in(boundary, std::move(text));
  });
  runtime->add_routes(managed::memory_routes(memories));
  runtime->add_routes(managed::file_routes(files));
  managed::DeploymentApi deployments(loop, measured, clock, sessions, "brain");
  deployments.use_vaults(vaults);
  runtime->add_routes(deployments.routes());
  runtime->set_body_bytes_max(kBodyBytesMax);
  SessionMetrics metrics;
  TraceSender traces(loop, sessions, runtime->client_to(Role::kGateway));
  const bool traced = runtime->start().values.contains("traces");
  sessions.observe(
      [&](const std::string& session, const std::vector<session::StoredEvent>& events) {
        metrics.observe(events);
        if (has_ended_turn(events)) hands.collect(session);
        if (traced) traces.observe(session, events);
      });
  runtime->metrics().add([&](telemetry::Page& page) {
    metrics.write(page, sessions.loaded());
    measured.write_metrics(page);
    if (traced) traces.write_metrics(page);
  });
  if (stores.database)
    runtime->at_end([&](TimePoint deadline) { return stores.database->finish(deadline); });
  linux::TaskGroup work(loop);
  work.spawn(traces.run());
  work.spawn(sessions.keep_going());
  work.spawn(bills.keep_going());
  work.spawn(toolbox.end_orphans());
  work.spawn(mcp_server.keep_tidy());
  work.spawn(sweep_memory(memories));
  work.spawn(sweep_files(loop, files));
  work.spawn(deployments.keep_going());
  return runtime->run();
}

}  // namespace

std::string store_path(const std::string& state_dir) {
  return fmt::format("{}/{}/{}", state_dir, roles::name_of(roles::Role::kBrain), kStoreFile);
}

int run_brain(roles::RoleStart start) {
  const auto ended = run(std::move(start));
  if (ended) return *ended;
  LOG_ERROR("cannot start", {"error", ended.error()});
  return 1;
}

}  // namespace pons::brain
