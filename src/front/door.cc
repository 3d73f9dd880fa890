#include "door.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "door_certificate.h"
#include "pons/base/check.h"
#include "pons/base/json.h"
#include "pons/base/secret.h"
#include "pons/base/text.h"
#include "pons/base/version.h"
#include "pons/http/error_status.h"
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

constexpr const char* kPublic = "public";

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

constexpr Duration kSandboxBodyIdleTime = std::chrono::hours(1);

constexpr int kTooLarge = 413;
constexpr const char* kTooLargeText = "the body is larger than this server takes";

// Of those that the warden serves to one role, streams get all but some.
constexpr std::size_t kStreamsMax = supervisor::kConnectionsPerRole - 512;
constexpr std::size_t kQuestionsMax = supervisor::kConnectionsPerRole - 64;

// Requests that may last long leave an eighth of the connections to others.
std::size_t share_for_long_ones(std::size_t connections) {
  return std::max<std::size_t>(1, connections - (connections + 7) / 8);
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
      admission_(runtime.loop(), keys_),
      behind_(admission_, runtime.client_to(Role::kBrain), runtime.client_to(Role::kEgress)),
      log_(runtime.start().values.at("log_requests")),
      origins_(runtime.start().values.at("allowed_origins")),
      warden_(runtime.loop(), "warden", runtime.channel_to(Role::kWarden),
              runtime.client_to(Role::kWarden)),
      gateway_(runtime.loop(), "gateway", runtime.channel_to(Role::kGateway),
               runtime.client_to(Role::kGateway)),
      brain_(runtime.loop(), "brain", runtime.channel_to(Role::kBrain),
             runtime.client_to(Role::kBrain)),
      models_(runtime.loop(), admission_, gateway_),
      sessions_(runtime.loop(), admission_, brain_, runtime.client_to(Role::kEgress),
                share_for_long_ones(number(runtime.start(), "connections"))),
      mcp_(runtime.loop(), admission_, brain_, runtime.start().values.at("domain")),
      sandboxes_(runtime.loop(), warden_.connector(kQuestionsMax)),
      streams_(runtime.loop(), warden_.connector(kStreamsMax)),
      for_sandboxes_max_(share_for_long_ones(number(runtime.start(), "connections"))),
      directory_(sandboxes_),
      control_(runtime.loop(), sandboxes_, directory_, behind_,
               {.domain = runtime.start().values.at("domain")}),
      data_(runtime.loop(), streams_, directory_, {.domain = runtime.start().values.at("domain")}),
      own_(make_own_routes()),
      server_(runtime.loop(), limits(),
              [this](http::Exchange& exchange) { return handle(exchange); }),
      tasks_(runtime.loop()) {
  server_.set_refuser([this](int status, std::string_view reason) {
    log_.write_refusal(status, reason);
    return http::error_response(status, "invalid_request", reason);
  });
  runtime_.drain_at_end(server_);
  runtime_.measure(server_, kPublic);
  runtime_.add_routes({{"PUT", "/tls", [this](http::Exchange& e, const http::PathValues&) {
                          return replace_certificate(e);
                        }}});
  tasks_.spawn(warden_.watch());
  tasks_.spawn(gateway_.watch());
  tasks_.spawn(brain_.watch());
  tasks_.spawn(keys_.follow(runtime.client_to(Role::kBrain)));
}

// Who writes to a sandbox says for himself when he has something to say.
http::ServerLimits PublicDoor::limits() const {
  http::ServerLimits limits = public_limits(runtime_.start());
  const Duration usual = limits.body_idle_time;
  limits.body_idle_time_of = [this, usual](const http::RequestHead& head) {
    return data_.is_for_sandbox(head) ? std::max(usual, kSandboxBodyIdleTime) : usual;
  };
  return limits;
}

Result<void> PublicDoor::open() {
  auto tls = TRY(take_certificate());
  is_encrypted_ = tls != nullptr;
  return server_.listen(runtime_.take_descriptor("public"), kPublic, std::move(tls));
}

// Null: plain HTTP.
Result<std::shared_ptr<http::TlsContext>> PublicDoor::take_certificate() {
  if (!runtime_.start().descriptors.contains("tls")) return nullptr;
  const linux::UniqueFd file = runtime_.take_descriptor("tls");
  std::string document = TRY(linux::read_all(file.get(), kDoorCertificateBytesMax));
  auto context = read_door_certificate(document, OutOfDate::kWarned);
  wipe(document.data(), document.size());
  return context;
}

// From the supervisor. A door that was opened plain stays so.
Task<> PublicDoor::replace_certificate(http::Exchange& exchange) {
  if (supervisor::refuse_unless_operator(exchange)) co_return;
  auto document = co_await exchange.read_whole_body(kDoorCertificateBytesMax);
  if (document && !is_encrypted_)
    document = make_error(ErrorCode::kConflict, "use new certificate", "the door is a plain one");
  if (!document) {
    exchange.respond(http::error_response(document.error()));
    co_return;
  }
  auto context = read_door_certificate(*document, OutOfDate::kRefused);
  wipe(document->data(), document->size());
  if (!context) {
    exchange.respond(http::error_response(context.error()));
    co_return;
  }
  server_.replace_tls(kPublic, std::move(*context));
  exchange.respond({.body = "{}\n"});
}

// Whose request it is, is settled by the sandbox it names, then by its path.
Task<> PublicDoor::handle(http::Exchange& exchange) {
  RecordedExchange recorded(exchange, log_);
  const http::RequestHead& request = recorded.request();
  // Programs in sandboxes say themselves who may use them.
  if (data_.is_for_program(request)) {
    recorded.set_for_program();
  } else if (auto origin = origins_.find(request)) {
    recorded.set_origin(*std::move(origin));
    if (is_preflight(request)) {
      recorded.respond(preflight_answer(request));
      co_return;
    }
  }
  if (data_.is_for_sandbox(request)) {
    exchange.set_route("sandbox");
    co_await handle_for_sandbox(recorded);
  } else if (ModelDoor::is_for_model(request)) {
    exchange.set_route("models");
    co_await models_.handle(recorded);
  } else if (SessionDoor::is_for_session(request)) {
    exchange.set_route("sessions");
    co_await sessions_.handle(recorded);
  } else if (McpDoor::is_for_mcp(request)) {
    exchange.set_route("mcp");
    co_await mcp_.handle(recorded);
  } else if (request.path() == "/healthz" || request.path() == "/health" ||
             request.path().starts_with("/x/")) {
    if (request.content_length > body_bytes_max_)
      recorded.respond(http::error_response(kTooLarge, "limit", kTooLargeText));
    else
      co_await own_(recorded);
  } else if (request.content_length > body_bytes_max_) {
    e2b::ControlPlane::refuse(recorded, kTooLarge, kTooLargeText);
  } else {
    exchange.set_route("e2b");
    if (const auto caller = keys_.identify(request)) recorded.set_key(caller->key);
    co_await control_.handle(recorded);
  }
}

Task<> PublicDoor::handle_for_sandbox(RecordedExchange& exchange) {
  if (for_sandboxes_ >= for_sandboxes_max_) {
    e2b::DataPlane::refuse(exchange,
                           make_error(ErrorCode::kLimit, "admit",
                                      "too many requests to sandboxes are open; try again"));
    co_return;
  }
  struct Counted {
    std::size_t& count;
    explicit Counted(std::size_t& c) : count(++c) {}
    ~Counted() { --count; }
  } const counted(for_sandboxes_);
  co_await data_.handle(exchange);
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
