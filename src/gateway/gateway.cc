#include "pons/gateway/gateway.h"

#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "collector.h"
#include "database_door.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/database/greeting.h"
#include "pons/http/error_status.h"
#include "pons/linux/run_task.h"
#include "pons/store/backup_route.h"
#include "pons/store/measured_store.h"
#include "pons/store/sqlite_store.h"
#include "pons/supervisor/role_runtime.h"
#include "routes.h"

namespace pons::gateway {

namespace {

// Below the role's own folder, which is its working directory.
constexpr const char* kStoreFile = "models.db";
constexpr const char* kJournalFolder = "journal";
constexpr const char* kDatabaseAuthority = "database-authority.pem";
constexpr std::size_t kKeysBytesMax = std::size_t{1} << 20;
constexpr std::uint64_t kBodyBytesMax = std::uint64_t{33} << 20;
constexpr Duration kLeaseMargin = std::chrono::minutes(5);

// {"provider": ["key", …]}, from the supervisor.
using ProviderKeys = std::map<std::string, std::vector<Secret>, std::less<>>;

Result<ProviderKeys> read_provider_keys(supervisor::RoleRuntime& runtime) {
  const linux::UniqueFd file = runtime.take_descriptor("model_keys");
  std::string text = TRY(linux::read_all(file.get(), kKeysBytesMax));
  ProviderKeys keys;
  {
    Json document = TRY(parse_json(text));
    for (auto& [provider, list] : document.items())
      for (Json& key : list) keys[provider].emplace_back(std::move(key.get_ref<std::string&>()));
  }
  wipe(text.data(), text.size());
  return keys;
}

Result<budget::Prices> read_prices(const roles::RoleStart& start) {
  const std::string& overrides = start.values.at("prices");
  auto prices = TRY(budget::Prices::load(overrides));
  if (start.values.at("unknown_price") == "refused") return prices;
  const budget::Price* dearest = nullptr;
  for (const auto& [name, price] : prices.all())
    if (dearest == nullptr || price.tokens.output > dearest->tokens.output) dearest = &price;
  return budget::Prices::load(overrides, *dearest);
}

// {"provider": "PEM"}: who vouches for them, from the supervisor, because the role itself may not
// open the files.
using Authorities = std::map<std::string, std::string, std::less<>>;

Result<Authorities> read_authorities(const roles::RoleStart& start) {
  const Json document = TRY(parse_json(start.values.at("authorities")));
  return document.get<Authorities>();
}

Result<Answerer> make_answerer(linux::Loop& loop, const ProviderSettings& settings,
                               std::vector<Secret> keys, std::string authorities,
                               names::Resolver& resolver) {
  if (settings.is_scripted())
    return Answerer{.provider = nullptr, .script = TRY(Script::parse(settings.script))};
  std::shared_ptr<http::TlsContext> tls;
  if (settings.url.tls)
    tls = TRY(http::TlsContext::create_client({.authorities = std::move(authorities)}));
  return Answerer{.provider = std::make_unique<Provider>(loop, settings, std::move(keys), resolver,
                                                         std::move(tls)),
                  .script = {}};
}

// The listener for trusted networks, if there is one.
Result<void> open_listener(supervisor::RoleRuntime& runtime, http::Server& server) {
  if (!runtime.start().descriptors.contains("models")) return {};
  runtime.drain_at_end(server);
  return server.listen(runtime.take_descriptor("models"), "trusted");
}

Task<> answer_backup(store::SqliteStore& store, budget::Book& book, http::Exchange& exchange) {
  if (supervisor::refuse_unless_operator(exchange)) co_return;
  // What was settled before is in the copy.
  if (const auto flushed = co_await book.flush(); !flushed)
    exchange.respond(http::error_response(flushed.error()));
  else
    co_await store::answer_backup(store, exchange);
}

http::Route backup_route(store::SqliteStore& store, budget::Book& book) {
  return {"GET", "/backup", [&](http::Exchange& exchange, const http::PathValues&) {
            return answer_backup(store, book, exchange);
          }};
}

// Names that may stand in metrics.
void name_models(Models& models) {
  models.routing.for_each([&](const std::string&, const Candidate& candidate) {
    models.metrics.know_model(candidate.deployment.model);
  });
  for (const auto& [name, price] : models.book.prices().all()) models.metrics.know_model(name);
}

void measure(Models& models, const store::MeasuredStore& store, telemetry::Registry& metrics) {
  models.book.set_witness([&](const budget::Charged& call) { models.metrics.count(call); });
  models.book.set_alarm([&](const budget::Warning& warning) {
    models.metrics.warnings.add();
    LOG_WARN("a budget is nearly used up", {"key", warning.node},
             {"what", budget::name_of(warning.limit.what)},
             {"window", budget::name_of(warning.limit.window)}, {"used", warning.used},
             {"limit", warning.limit.amount});
  });
  metrics.add([&](telemetry::Page& page) {
    models.metrics.write(page);
    write_health(page, models.routing, models.loop.now());
    store.write_metrics(page);
  });
}

// Traces of agents on their way to a collector.
struct Traces {
  Traces(linux::Loop& loop, Secret fields, std::unique_ptr<Provider> to)
      : headers(std::move(fields)),
        collector(std::move(to)),
        spans(loop, send_to(*collector, headers)) {}
  Secret headers;
  std::unique_ptr<Provider> collector;
  SpanExport spans;
};

// Null: nobody wants them.
Result<std::unique_ptr<Traces>> open_traces(supervisor::RoleRuntime& runtime,
                                            names::Resolver& resolver) {
  const auto endpoint = runtime.start().values.find("otlp_endpoint");
  if (endpoint == runtime.start().values.end()) return nullptr;
  Secret headers;
  if (runtime.start().descriptors.contains("otlp_headers")) {
    const linux::UniqueFd file = runtime.take_descriptor("otlp_headers");
    headers = Secret(TRY(linux::read_all(file.get(), kKeysBytesMax)));
  }
  return std::make_unique<Traces>(runtime.loop(), std::move(headers),
                                  TRY(make_collector(runtime.loop(), endpoint->second, resolver)));
}

void serve_traces(supervisor::RoleRuntime& runtime, SpanExport& spans, const Routing& routing,
                  linux::TaskGroup& work) {
  runtime.add_routes(span_routes(spans, routing));
  runtime.metrics().add([&](telemetry::Page& page) { spans.write_metrics(page); });
  runtime.at_end([&](TimePoint deadline) { return spans.flush(deadline); });
  work.spawn(spans.run());
}

// Null: the brain keeps everything in a file of its own.
Result<std::unique_ptr<DatabaseDoor>> open_database_door(supervisor::RoleRuntime& runtime,
                                                         names::Resolver& resolver) {
  const auto& values = runtime.start().values;
  const auto url = values.find("database");
  if (url == values.end()) return nullptr;
  auto address = TRY(database::Address::parse(url->second));
  Secret password;
  if (runtime.start().descriptors.contains("database_password")) {
    const linux::UniqueFd file = runtime.take_descriptor("database_password");
    password = Secret(TRY(linux::read_all(file.get(), kKeysBytesMax)));
  }
  // PostgreSQL's library takes certificates by the name of their file.
  const auto authority = values.find("database_authority");
  if (authority != values.end()) {
    const Json certificates = TRY(parse_json(authority->second));
    TRY_VOID(
        linux::write_file_atomically(kDatabaseAuthority, certificates.get<std::string>(), 0600));
  }
  return std::make_unique<DatabaseDoor>(runtime.loop(), resolver, std::move(address),
                                        std::move(password),
                                        authority != values.end() ? kDatabaseAuthority : "");
}

Result<int> run(roles::RoleStart start) {
  const std::string shown = store_path(start.confinement.state_dir);
  // Afterwards this process opens no such file.
  if (start.values.contains("database")) TRY_VOID(database::load_client_library());
  const auto runtime = TRY(supervisor::RoleRuntime::create(std::move(start)));
  unlink(store::kBackupFile);  // of a process that was killed while it made one
  linux::Loop& loop = runtime->loop();
  const SystemClock clock;
  const auto store = TRY(store::SqliteStore::open(loop, {.path = kStoreFile, .shown = shown}));
  store::MeasuredStore measured(*store, clock);
  budget::Prices prices = TRY(read_prices(runtime->start()));
  Routing routing(TRY(read_model_settings(runtime->start().values.at("models"))));
  budget::BookOptions options{.directory = kJournalFolder,
                              .sandbox_second_nano = prices.sandbox_second_nano()};
  // No call that somebody still waits for is given up.
  options.lease = std::max(options.lease, routing.settings().longest_silence() + kLeaseMargin);
  const auto book = TRY(linux::run_to_end(
      loop, budget::Book::open(loop, measured, clock, std::move(prices), std::move(options))));
  ProviderKeys keys = TRY(read_provider_keys(*runtime));
  Authorities authorities = TRY(read_authorities(runtime->start()));
  names::Resolver resolver(loop, names::read_resolver_settings());
  Models models{.loop = loop, .routing = routing, .book = *book, .answerers = {}};
  for (const auto& [name, settings] : routing.settings().providers)
    models.answerers[name] = TRY(make_answerer(loop, settings, std::move(keys[name]),
                                               std::move(authorities[name]), resolver));
  name_models(models);
  measure(models, measured, runtime->metrics());
  const auto traces = TRY(open_traces(*runtime, resolver));
  const auto database_door = TRY(open_database_door(*runtime, resolver));
  if (database_door) runtime->add_routes(database_door->routes());
  linux::TaskGroup work(loop);
  if (traces) {
    models.spans = &traces->spans;
    serve_traces(*runtime, traces->spans, routing, work);
  }
  runtime->set_body_bytes_max(kBodyBytesMax);
  runtime->add_routes(model_routes(models));
  runtime->add_routes(operator_routes(models));
  runtime->add_routes(sandbox_routes(models));
  runtime->add_routes(session_key_routes(models));
  runtime->add_routes(question_routes(models));
  runtime->add_routes({backup_route(*store, *book)});
  http::Server trusted(loop, {.body_bytes = kBodyBytesMax, .connections = 4'096},
                       http::route(model_routes(models)));
  runtime->measure(trusted, "trusted");
  TRY_VOID(open_listener(*runtime, trusted));
  return runtime->run();
}

}  // namespace

std::string store_path(const std::string& state_dir) {
  return fmt::format("{}/{}/{}", state_dir, roles::name_of(roles::Role::kGateway), kStoreFile);
}

int run_gateway(roles::RoleStart start) {
  const auto ended = run(std::move(start));
  if (ended) return *ended;
  LOG_ERROR("cannot start", {"error", ended.error()});
  return 1;
}

}  // namespace pons::gateway
