#include "pons/brain/brain.h"

#include <unistd.h>

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "access_desk.h"
#include "access_watch.h"
#include "database_stream.h"
#include "egress_boundary.h"
#include "furnished_hands.h"
#include "gateway_keys.h"
#include "gateway_model.h"
#include "key_watch.h"
#include "node_name.h"
#include "package_builds.h"
#include "packaged_hands.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/brain/warden_hands.h"
#include "pons/files/file_store.h"
#include "pons/guest/guests.h"
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
#include "pons/store/copy_store.h"
#include "pons/store/measured_store.h"
#include "pons/store/postgres_store.h"
#include "pons/store/sqlite_store.h"
#include "pons/supervisor/role_runtime.h"
#include "recorded_hands.h"
#include "routes.h"
#include "sandbox_bills.h"
#include "sandbox_toolbox.h"
#include "session_metrics.h"
#include "session_notes.h"
#include "session_servers.h"
#include "token_door.h"
#include "trace_sender.h"
#include "vault_finder.h"

namespace pons::brain {

namespace {

// Below the role's own folder, which is its working directory.
constexpr const char* kStoreFile = "pons.db";
constexpr const char* kNodeFile = "node";

// Where several brains share a database: one that has said nothing for so long is taken for dead.
constexpr Duration kLease = std::chrono::seconds(6);
constexpr Duration kBetweenLooks = std::chrono::seconds(2);

using roles::Role;

// A message may carry images.
constexpr store::StoreLimits kStoreLimits{.value_bytes = 16ULL << 20,
                                          .transaction_bytes = 64ULL << 20};
// A file, and the form around it. Whoever reads another body whole says how long it may be.
constexpr std::uint64_t kBodyBytesMax = (files::FileLimits{}.bytes) + (64 << 10);

// A tool of a server elsewhere may take its time; who asks has deadlines of their own.
constexpr http::ClientLimits kCarryLimits{.first_byte_time = std::chrono::minutes(6),
                                          .idle_time = std::chrono::minutes(6),
                                          .idle_connections = 32};

// Of MCP inside sandboxes; a project is one sandbox.
constexpr mcp::ServerLimits kGuestToolLimits{
    .sessions_per_project = 64, .calls_per_project = 64, .calls_per_session = 64};
// Of those in which nobody's harness lives: there is nothing for them.
constexpr mcp::ServerLimits kOtherToolLimits{
    .sessions = 256, .sessions_per_project = 2, .calls_per_project = 2, .calls_per_session = 2};

// 0: what the operator has set. One that nobody uses for so long was forgotten by somebody.
constexpr sandbox::Limits kSandboxLimits{
    .memory_bytes = 0, .cpu_percent = 0, .pids = 0, .idle_max = std::chrono::hours(6)};

struct AgentSettings {
  Agents agents;
  std::string harness = "native";  // of those that name none
  std::vector<harness::Recipe> recipes = harness::known_recipes();
};

// {"agents": {NAME: DOCUMENT}, "model": NAME, "harness": NAME, "harnesses": RECIPES}
Result<AgentSettings> agents_of(const std::map<std::string, std::string>& values) {
  AgentSettings settings;
  const auto found = values.find("agents");
  if (found == values.end()) {
    settings.agents = TRY(session::read_agents({}, "demo"));
    return settings;
  }
  const Json json = TRY(parse_json(found->second));
  settings.harness = json.at("harness").get<std::string>();
  settings.agents =
      TRY(session::read_agents(json.at("agents").get<std::map<std::string, std::string>>(),
                               json.at("model").get<std::string>(), settings.harness));
  // An operator's own counts before ours of the same name.
  auto own = TRY(harness::read_recipes(json.at("harnesses").get<std::string>(), "harnesses"));
  own.insert(own.end(), settings.recipes.begin(), settings.recipes.end());
  settings.recipes = std::move(own);
  return settings;
}

managed::HarnessChoice choice_of(const AgentSettings& settings) {
  managed::HarnessChoice choice{.names = {}, .usual = settings.harness};
  for (const harness::Recipe& recipe : settings.recipes) choice.names.push_back(recipe.name);
  return choice;
}

std::string value_of(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? std::string() : found->second;
}

// {"npm": URL}
Result<std::map<std::string, std::string>> registries_of(
    const std::map<std::string, std::string>& values) {
  std::map<std::string, std::string> registries;
  const Json json = TRY(parse_json(
      values.contains("package_registries") ? values.at("package_registries") : std::string("{}")));
  for (const auto& [manager, url] : json.items()) registries[manager] = url.get<std::string>();
  return registries;
}

// Exactly one of them.
struct Stores {
  std::unique_ptr<store::SqliteStore> file;
  std::unique_ptr<store::PostgresStore> database;
  std::string node;  // this one's name among those that share the database
  store::Bell* bell() const { return database ? database->bell() : nullptr; }
  store::Store* used() const {
    if (database) return database.get();
    return file.get();
  }
};

Result<Stores> open_stores(supervisor::RoleRuntime& runtime, const std::string& shown) {
  Stores stores{};
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
      .name = TRY(own_node_name(kNodeFile)),
      .is_alone = !runtime.start().values.contains("database_others")};
  stores.node = options.name;
  options.limits.queued_bytes = 2 * kStoreLimits.transaction_bytes;
  stores.database = TRY(linux::run_to_end(
      runtime.loop(), store::PostgresStore::open(runtime.loop(), std::move(options))));
  return stores;
}

// By which its next process finds its sessions again.
std::string owner_of(const Stores& stores) {
  return stores.database ? stores.node : "brain";
}

session::StoreLogOptions log_options(const Stores& stores) {
  if (!stores.database) return {.owner = owner_of(stores)};
  return {.owner = owner_of(stores),
          .lease = std::chrono::duration_cast<std::chrono::milliseconds>(kLease),
          .uses_servers_clock = true,
          .bell = stores.bell()};
}

Task<Result<std::vector<ApiKey>>> prepare(Memory& memory) {
  CO_TRY(const bool is_half, co_await store::is_unfinished_copy(memory.store));
  if (is_half)
    co_return make_error(ErrorCode::kUnsupported, "open store",
                         "`pons migrate` has not finished copying to this store; run it again, or "
                         "make another database");
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

Result<int> run(roles::RoleStart start) {
  const std::string shown = store_path(start.confinement.state_dir);
  const auto runtime = TRY(supervisor::RoleRuntime::create(std::move(start)));
  unlink(store::kBackupFile);  // of a process that was killed while it made one
  const SystemClock clock;
  linux::Loop& loop = runtime->loop();
  const Stores stores = TRY(open_stores(*runtime, shown));
  store::Store* const store = stores.used();
  Memory memory{.store = *store,
                .file = stores.file.get(),
                .clock = clock,
                .node = stores.node,
                .bell = stores.bell()};
  const auto keys = TRY(linux::run_to_end(loop, prepare(memory)));
  KeyFeed feed(loop, keys);
  TRY_VOID(linux::run_to_end(loop, tell_limits(memory, feed)));
  runtime->add_routes(front_routes(memory, feed));
  runtime->add_routes(operator_routes(memory, feed));

  GatewayModel model(loop, runtime->connector_to(Role::kGateway));
  sandbox::RemoteProvider sandboxes(loop, runtime->connector_to(Role::kWarden));
  WardenHands warden_hands(loop, sandboxes, kSandboxLimits);
  SandboxBills bills(loop, runtime->connector_to(Role::kGateway), memory.records, clock);
  memory.bills = &bills;
  RecordedHands recorded_hands(warden_hands, memory.records, clock, &bills);
  store::MeasuredStore measured(*store, clock);
  files::FileStore files(measured, clock);
  managed::PackageUses package_uses(measured, clock);
  PackageBuilds packages(loop, clock, sandboxes, package_uses,
                         {.network = value_of(runtime->start().values, "package_network"),
                          .registries = TRY(registries_of(runtime->start().values))});
  PackagedHands packaged_hands(recorded_hands, packages);
  FurnishedHands hands(loop, packaged_hands, sandboxes, files);
  EgressBoundary boundary(loop, runtime->connector_to(Role::kEgress));
  session::StoreLog log(measured, clock, log_options(stores));
  memory::MemoryStores memories(measured, clock, [&boundary](std::string text) {
    return credentials_in(boundary, std::move(text));
  });
  SessionNotes notes(memories);
  ServerPins pins(measured, clock);
  http::Client egress(loop, runtime->connector_to(Role::kEgress), "egress", kCarryLimits);
  SessionServers servers(loop, egress, pins);
  EgressDesk desk(egress);
  AgentSettings settings = TRY(agents_of(runtime->start().values));
  GatewayKeys model_keys(loop, runtime->connector_to(Role::kGateway));
  guest::Guests guests(loop, sandboxes, hands, model, model_keys, settings.recipes);
  session::Sessions sessions(
      loop, clock, log, guests, hands, boundary,
      {.notes = &notes, .servers = &servers, .desk = &desk},
      {.node = stores.node,
       .between_looks = stores.database ? kBetweenLooks : session::Sharing{}.between_looks,
       .bell = stores.bell()});
  AccessWatch access(loop, egress, sandboxes, sessions, boundary, stores.node);
  Minds minds{
      .sessions = sessions, .boundary = boundary, .agents = settings.agents, .memories = &memories};
  runtime->add_routes(session_routes(minds));
  KeyFeedDoor door(loop, feed, memory.bell);
  managed::ManagedApi api(loop, measured, clock, sessions, door);
  const bool has_others = runtime->start().values.contains("database_others");
  const managed::VaultFinder vaults = vault_finder(
      runtime->client_to(Role::kEgress), has_others ? OtherVaults::kElsewhere : OtherVaults::kNone);
  api.use_vaults(vaults);
  api.use_harnesses(choice_of(settings));
  hands.find_files_with([&api](std::string project, std::string session) {
    return api.files_of(std::move(project), std::move(session));
  });
  api.tell_of_packages([&packages] { packages.look(); });
  runtime->add_routes(api.routes());
  managed::Documents environments(measured, clock, "environments", "environment", "env");
  runtime->add_routes(package_routes(environments, packages));
  SandboxToolbox toolbox(loop, hands, boundary, sandboxes, minds.agents.at("default"));
  mcp::Server mcp_server(loop, toolbox);
  mcp::Server guest_tools(loop, guests, kGuestToolLimits);
  mcp::Server other_tools(loop, guests, kOtherToolLimits);
  runtime->add_routes(mcp_routes(mcp_server, [&](const std::string& sandbox) -> mcp::Server& {
    return guests.has_guest_in(sandbox) ? guest_tools : other_tools;
  }));
  runtime->add_routes(managed::memory_routes(
      memories, [&api](std::string project, std::string session, std::string store) {
        return api.grant_of(std::move(project), std::move(session), std::move(store));
      }));
  runtime->add_routes(memory_routes(memories));
  runtime->add_routes(server_routes(pins));
  runtime->add_routes(managed::file_routes(files));
  managed::DeploymentApi deployments(loop, measured, clock, sessions, owner_of(stores));
  deployments.use_vaults(vaults);
  deployments.use_harnesses(choice_of(settings));
  runtime->add_routes(deployments.routes());
  runtime->add_routes(managed::ManagedApi::unknown_routes());
  runtime->set_body_bytes_max(kBodyBytesMax);
  SessionMetrics metrics;
  TraceSender traces(loop, sessions, runtime->client_to(Role::kGateway));
  const bool traced = runtime->start().values.contains("traces");
  sessions.observe(
      [&](const std::string& session, const std::vector<session::StoredEvent>& events) {
        metrics.observe(events);
        guests.observe(session, events);
        if (traced) traces.observe(session, events);
      });
  runtime->metrics().add([&](telemetry::Page& page) {
    metrics.write(page, sessions.loaded());
    notes.write_metrics(page);
    servers.write_metrics(page);
    measured.write_metrics(page);
    if (traced) traces.write_metrics(page);
  });
  if (stores.database)
    runtime->at_end([&](TimePoint deadline) { return stores.database->finish(deadline); });
  std::optional<KeyWatch> key_watch;
  linux::TaskGroup work(loop);
  if (memory.bell != nullptr) {
    key_watch.emplace(loop, memory.keys, memory.projects, feed, *memory.bell,
                      [&api] { return api.look_at_tokens(); });
    memory.bell->listen([&](std::string_view topic) {
      sessions.hear(topic);
      if (topic == kKeysTopic || topic == store::Bell::kAnything) key_watch->look();
    });
    work.spawn(key_watch->keep_looking());
  }
  work.spawn(traces.run());
  work.spawn(sessions.keep_going());
  work.spawn(bills.keep_going());
  work.spawn(packages.keep_going());
  work.spawn(access.keep_going());
  work.spawn(toolbox.end_orphans());
  work.spawn(mcp_server.keep_tidy());
  work.spawn(guest_tools.keep_tidy());
  work.spawn(other_tools.keep_tidy());
  work.spawn(guests.keep_tidy());
  work.spawn(sweep_memory(memories));
  work.spawn(servers.keep_tidy());
  work.spawn(sweep_files(loop, files));
  work.spawn(deployments.keep_going());
  work.spawn(api.keep_going());
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
