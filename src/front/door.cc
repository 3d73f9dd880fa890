#include "door.h"

#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/base/version.h"
#include "pons/roles/channel.h"
#include "recorded_exchange.h"

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

// Files stream into sandboxes and are limited by their disks.
constexpr std::uint64_t kBodyBytesMax = 1ULL << 40;

http::ServerLimits public_limits(const roles::RoleStart& start) {
  const auto seconds = [&](const char* name) {
    return Duration(std::chrono::seconds(static_cast<std::int64_t>(number(start, name))));
  };
  http::ServerLimits limits;
  limits.head.bytes = number(start, "header_bytes");
  limits.head.fields = number(start, "header_count");
  limits.body_bytes = kBodyBytesMax;
  limits.connections = number(start, "connections");
  limits.header_time = seconds("header_seconds");
  limits.idle_time = seconds("idle_seconds");
  limits.body_idle_time = seconds("body_idle_seconds");
  return limits;
}

http::Connector connector_to(supervisor::RoleRuntime& runtime, Role role) {
  return [&runtime, channel = runtime.channel_to(role)](
             TimePoint) -> Task<Result<std::unique_ptr<http::Transport>>> {
    CO_TRY(auto socket, roles::dial(channel));
    co_return http::create_plain_transport(runtime.loop(), std::move(socket));
  };
}

Task<> answer_health(http::Exchange& exchange) {
  exchange.respond({.body = "{\"status\":\"ok\"}\n"});
  co_return;
}

}  // namespace

PublicDoor::PublicDoor(supervisor::RoleRuntime& runtime)
    : runtime_(runtime),
      body_bytes_max_(number(runtime.start(), "body_bytes")),
      keys_(runtime.loop(), runtime.start().values.at("admin_token_sha256")),
      behind_(runtime.loop(), keys_, runtime.client_to(Role::kBrain),
              runtime.client_to(Role::kEgress)),
      sandboxes_(runtime.loop(), connector_to(runtime, Role::kWarden)),
      directory_(sandboxes_),
      control_(runtime.loop(), sandboxes_, directory_, behind_,
               {.domain = runtime.start().values.at("domain")}),
      data_(runtime.loop(), sandboxes_, directory_,
            {.domain = runtime.start().values.at("domain")}),
      own_(make_own_routes()),
      server_(runtime.loop(), public_limits(runtime.start()),
              [this](http::Exchange& exchange) { return handle(exchange); }) {
  runtime_.drain_at_end(server_);
  runtime_.loop().spawn(keys_.follow(runtime.client_to(Role::kBrain)));
}

Result<void> PublicDoor::open() {
  return server_.listen(runtime_.take_descriptor("public"), "public");
}

// Whose request it is, is settled by the sandbox it names, then by its path.
Task<> PublicDoor::handle(http::Exchange& exchange) {
  RecordedExchange recorded(exchange);
  const http::RequestHead& request = recorded.request();
  if (data_.is_for_sandbox(request)) {
    co_await data_.handle(recorded);
  } else if (request.content_length > body_bytes_max_) {
    recorded.respond(
        http::error_response(413, "limit", "the body is larger than this server takes"));
  } else if (request.path() == "/healthz" || request.path() == "/health" ||
             request.path().starts_with("/x/")) {
    co_await own_(recorded);
  } else {
    co_await control_.handle(recorded);
  }
}

http::Handler PublicDoor::make_own_routes() {
  const auto health = [](http::Exchange& e, const http::PathValues&) { return answer_health(e); };
  return http::route({
      {"GET", "/healthz", health},
      {"GET", "/health", health},
      {"GET", "/x/status",
       [this](http::Exchange& e, const http::PathValues&) { return answer_status(e); }},
  });
}

Task<> PublicDoor::answer_status(http::Exchange& exchange) {
  if (!keys_.is_admin(exchange.request())) {
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

Task<bool> PublicDoor::is_well(Role role) {
  auto response = co_await runtime_.client_to(role).send({.target = "/healthz"});
  if (!response || response->status() != 200) co_return false;
  constexpr std::size_t kHealthBytesMax = 4096;
  co_return (co_await response->read_whole_body(kHealthBytesMax)).has_value();
}

}  // namespace pons::front
