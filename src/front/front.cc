#include "pons/front/front.h"

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/secret.h"
#include "pons/base/text.h"
#include "pons/base/version.h"
#include "pons/supervisor/role_runtime.h"

namespace pons::front {

namespace {

using roles::Role;

std::uint64_t number(const roles::RoleStart& start, const char* name) {
  const auto value = start.values.find(name);
  CHECK(value != start.values.end());
  const auto parsed = parse_decimal(value->second);
  CHECK(parsed.has_value());
  return *parsed;
}

http::ServerLimits public_limits(const roles::RoleStart& start) {
  const auto seconds = [&](const char* name) {
    return Duration(std::chrono::seconds(static_cast<std::int64_t>(number(start, name))));
  };
  http::ServerLimits limits;
  limits.head.bytes = number(start, "header_bytes");
  limits.head.fields = number(start, "header_count");
  limits.body_bytes = number(start, "body_bytes");
  limits.connections = number(start, "connections");
  limits.header_time = seconds("header_seconds");
  limits.idle_time = seconds("idle_seconds");
  limits.body_idle_time = seconds("body_idle_seconds");
  return limits;
}

class PublicDoor {
 public:
  explicit PublicDoor(supervisor::RoleRuntime& runtime)
      : runtime_(runtime),
        token_hash_(runtime.start().values.at("admin_token_sha256")),
        server_(runtime.loop(), public_limits(runtime.start()), http::route(routes())) {
    runtime_.drain_at_end(server_);
  }

  Result<void> open() { return server_.listen(runtime_.take_descriptor("public"), "public"); }

 private:
  std::vector<http::Route> routes() {
    return {
        {"GET", "/healthz",
         [](http::Exchange& e, const http::PathValues&) { return answer_health(e); }},
        {"GET", "/x/status",
         [this](http::Exchange& e, const http::PathValues&) { return answer_status(e); }},
    };
  }

  // Only the hash is known here, so neither a leak of this process's memory nor its timing gives
  // the token away.
  bool is_admin(const http::RequestHead& request) const {
    constexpr std::string_view kScheme = "Bearer ";
    const auto authorization = request.find("Authorization").value_or("");
    return authorization.starts_with(kScheme) &&
           equal_constant_time(sha256_hex(authorization.substr(kScheme.size())), token_hash_);
  }

  static Task<> answer_health(http::Exchange& exchange) {
    exchange.respond({.body = "{\"status\":\"ok\"}\n"});
    co_return;
  }

  Task<> answer_status(http::Exchange& exchange) {
    if (!is_admin(exchange.request())) {
      http::Response refusal = http::error_response(
          401, "unauthenticated", "send the admin token: Authorization: Bearer TOKEN");
      refusal.fields = {{"WWW-Authenticate", "Bearer"}};
      exchange.respond(std::move(refusal));
      co_return;
    }
    Json behind = Json::object();
    bool all_well = true;
    for (const Role role : roles::profile_of(Role::kFront).may_dial) {
      const bool well = co_await is_well(role);
      behind[std::string(roles::name_of(role))] = well ? "ok" : "unavailable";
      all_well &= well;
    }
    exchange.respond(
        {.status = all_well ? 200 : 503,
         .body = dump_json({{"version", version()}, {"roles", std::move(behind)}}) + "\n"});
  }

  Task<bool> is_well(Role role) {
    auto response = co_await runtime_.client_to(role).send({.target = "/healthz"});
    if (!response || response->status() != 200) co_return false;
    constexpr std::size_t kHealthBytesMax = 4096;
    co_return (co_await response->read_whole_body(kHealthBytesMax)).has_value();
  }

  supervisor::RoleRuntime& runtime_;
  std::string token_hash_;
  http::Server server_;
};

}  // namespace

int run_front(roles::RoleStart start) {
  auto runtime = supervisor::RoleRuntime::create(std::move(start));
  if (!runtime) {
    LOG_ERROR("cannot start", {"error", runtime.error()});
    return 1;
  }
  PublicDoor door(**runtime);
  if (auto opened = door.open(); !opened) {
    LOG_ERROR("cannot open the public listener", {"error", opened.error()});
    return 1;
  }
  return (*runtime)->run();
}

}  // namespace pons::front
