#include "pons/warden/warden.h"

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/roles/attempts.h"
#include "pons/spawner/client.h"
#include "pons/supervisor/role_runtime.h"
#include "pons/supervisor/self_test_json.h"

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

}  // namespace

int run_warden(roles::RoleStart start) {
  auto runtime = supervisor::RoleRuntime::create(std::move(start));
  if (!runtime) {
    LOG_ERROR("cannot start", {"error", runtime.error()});
    return 1;
  }
  spawner::Client client((*runtime)->loop(), (*runtime)->channel_to(Role::kSpawner));
  (*runtime)->add_routes({
      {"GET", "/spawner/identity",
       [&](http::Exchange& e, const http::PathValues&) { return answer_identity(client, e); }},
      {"POST", "/spawner/selftest",
       [&](http::Exchange& e, const http::PathValues&) { return answer_self_test(client, e); }},
  });
  return (*runtime)->run();
}

}  // namespace pons::warden
