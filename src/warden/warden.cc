#include "pons/warden/warden.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "egress_gate.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/roles/attempts.h"
#include "pons/sandbox/namespaces.h"
#include "pons/spawner/client.h"
#include "pons/supervisor/role_runtime.h"
#include "pons/supervisor/self_test_json.h"
#include "routes.h"

namespace pons::warden {

namespace {

using roles::Role;
using spawner::RequestKind;

void respond_unavailable(http::Exchange& exchange, const Error& error) {
  exchange.respond(http::error_response(503, "unavailable", error.describe()));
}

Task<> answer_identity(spawner::Client& client, http::Exchange& exchange) {
  const auto reply = co_await client.call(RequestKind::kIdentify);
  if (!reply) {
    respond_unavailable(exchange, reply.error());
    co_return;
  }
  exchange.respond({.body = dump_json({{"role", "spawner"},
                                       {"pid", reply->values[0]},
                                       {"uptime_ms", reply->values[1]}}) +
                            "\n"});
}

// The spawner makes the attempts and says what the kernel answered; names and judgement are added
// here.
Task<> answer_self_test(spawner::Client& client, http::Exchange& exchange) {
  if (supervisor::refuse_unless_operator(exchange)) co_return;
  std::vector<roles::AttemptResult> results;
  const auto attempts = roles::attempts_for(roles::profile_of(Role::kSpawner));
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const auto reply = co_await client.call(RequestKind::kAttempt, i);
    if (!reply) {
      respond_unavailable(exchange, reply.error());
      co_return;
    }
    results.push_back(roles::judge(*attempts[i], static_cast<int>(reply->os_error)));
  }
  exchange.respond({.body = dump_json(supervisor::self_test_json(Role::kSpawner, results)) + "\n"});
}

// For `pons doctor --leaks`: keys as the names of control groups and sockets have them, and how
// many namespaces the spawner has ready for sandboxes that are still to come.
Task<> answer_known(sandbox::NamespacesProvider& provider, spawner::Client& client,
                    http::Exchange& exchange) {
  if (supervisor::refuse_unless_operator(exchange)) co_return;
  const auto known = co_await provider.known();
  if (!known) {
    respond_unavailable(exchange, known.error());
    co_return;
  }
  const auto spawner = co_await client.call(RequestKind::kIdentify);
  if (!spawner) {
    respond_unavailable(exchange, spawner.error());
    co_return;
  }
  Json keys = Json::array();
  for (const std::uint64_t key : known->keys) keys.push_back(fmt::format("{:016x}", key));
  exchange.respond({.body = dump_json({{"keys", std::move(keys)},
                                       {"disks_max", known->disks_max},
                                       {"namespaces_ready",
                                        {{"user", spawner->values[3]},
                                         {"net", spawner->values[4]},
                                         {"mnt", spawner->values[5]}}}}) +
                            "\n"});
}

// Files stream through and are limited by the sandbox's own disk.
constexpr std::uint64_t kBodyBytesMax = 1ULL << 40;

sandbox::NamespacesSettings settings_of(const roles::RoleStart& start) {
  const auto number = [&](const char* name, std::uint64_t otherwise) {
    const auto found = start.values.find(name);
    return found == start.values.end() ? otherwise
                                       : parse_decimal(found->second).value_or(otherwise);
  };
  sandbox::NamespacesSettings settings;
  settings.pool_memory_bytes = number("pool_memory_mb", 64) << 20;
  settings.warm_min = number("warm_min", settings.warm_min);
  settings.warm_max = number("warm_max", settings.warm_max);
  settings.sandboxes_max = number("sandboxes_max", settings.sandboxes_max);
  settings.defaults.memory_bytes = number("memory_mb", 512) << 20;
  settings.defaults.cpu_percent =
      static_cast<std::uint32_t>(number("cpu_percent", settings.defaults.cpu_percent));
  settings.defaults.pids = static_cast<std::uint32_t>(number("pids", settings.defaults.pids));
  settings.defaults.io_read_bytes_per_second = number("io_read_mb_per_second", 0) << 20;
  settings.defaults.io_write_bytes_per_second = number("io_write_mb_per_second", 0) << 20;
  settings.defaults.io_read_operations_per_second =
      static_cast<std::uint32_t>(number("io_read_operations_per_second", 0));
  settings.defaults.io_write_operations_per_second =
      static_cast<std::uint32_t>(number("io_write_operations_per_second", 0));
  return settings;
}

}  // namespace

int run_warden(roles::RoleStart start) {
  auto runtime = supervisor::RoleRuntime::create(std::move(start));
  if (!runtime) {
    LOG_ERROR("cannot start", {"error", runtime.error()});
    return 1;
  }
  spawner::Client client((*runtime)->loop(), (*runtime)->channel_to(Role::kSpawner));
  EgressGate gate((*runtime)->loop(), (*runtime)->channel_to(Role::kEgress),
                  (*runtime)->client_to(Role::kEgress));
  auto settings = settings_of((*runtime)->start());
  settings.network_gate = &gate;
  auto provider =
      sandbox::NamespacesProvider::create((*runtime)->loop(), client, std::move(settings));
  if (!provider) {
    LOG_ERROR("cannot start", {"error", provider.error()});
    return 1;
  }
  (*runtime)->metrics().add([&](telemetry::Page& page) { (*provider)->write_metrics(page); });
  (*runtime)->set_body_bytes_max(kBodyBytesMax);
  // A warden that is killed leaves the sandboxes to the next one.
  (*runtime)->at_end([&](TimePoint deadline) { return (*provider)->end_all(deadline); });
  (*runtime)->add_routes(sandbox_routes(**provider));
  (*runtime)->add_routes({
      {"GET", "/leaks/known",
       [&](http::Exchange& e, const http::PathValues&) {
         return answer_known(**provider, client, e);
       }},
      {"GET", "/spawner/identity",
       [&](http::Exchange& e, const http::PathValues&) { return answer_identity(client, e); }},
      {"POST", "/spawner/selftest",
       [&](http::Exchange& e, const http::PathValues&) { return answer_self_test(client, e); }},
  });
  return (*runtime)->run();
}

}  // namespace pons::warden
