#include "pons/e2b/data_plane.h"

#include "address.h"
#include "call.h"
#include "facts.h"
#include "failure.h"
#include "file_door.h"
#include "files.h"
#include "pons/base/base64.h"
#include "pons/base/text.h"
#include "port_proxy.h"
#include "rpc.h"
#include "watchers.h"

namespace pons::e2b {

namespace {

// "Basic base64(USER:)"; empty when there is none, nothing when it is nonsense.
std::optional<std::string> user_of(const http::RequestHead& head) {
  constexpr std::string_view kScheme = "Basic ";
  const auto field = head.find("Authorization");
  if (!field) return std::string();
  if (field->size() < kScheme.size() ||
      !equal_ignoring_case(field->substr(0, kScheme.size()), kScheme))
    return std::nullopt;
  auto pair = base64_decode(trim(field->substr(kScheme.size())));
  if (!pair || !is_valid_utf8(*pair)) return std::nullopt;
  return pair->substr(0, pair->find(':'));
}

Task<> answer_health(Call& call) {
  const auto well = co_await call.ensure_awake();
  if (well) {
    call.exchange.respond({.status = 204, .content_type = "", .body = ""});
  } else if (is_gone(well.error())) {
    respond_gone(call.exchange, call.id());
  } else {
    respond_failure(call.exchange, well.error());
  }
}

}  // namespace

class DataPlane::Door {
 public:
  Door(linux::Loop& loop, sandbox::Provider& provider, Directory& directory,
       DataPlaneSettings settings)
      : watchers_(loop, provider),
        ground_{loop, provider, directory, watchers_},
        nameless_files_(ground_),
        settings_(std::move(settings)) {}

  bool is_for_sandbox(const http::RequestHead& head) const {
    const auto address = find_address(head, settings_.domain);
    return !address || *address || is_nameless_file(head);
  }

  bool is_for_program(const http::RequestHead& head) const {
    const auto address = find_address(head, settings_.domain);
    return address && *address && (*address)->port != kEnvdPort;
  }

  Task<> handle(http::Exchange& exchange) {
    const auto address = find_address(exchange.request(), settings_.domain);
    if (!address) {
      refuse(exchange, address.error());
    } else if (*address) {
      co_await handle_addressed(exchange, **address);
    } else {
      co_await nameless_files_.handle(exchange);
    }
  }

 private:
  Task<> handle_addressed(http::Exchange& exchange, Address address) {
    auto found = co_await ground_.directory.find(address.sandbox);
    if (!found && found.error().code == ErrorCode::kNotFound) {
      respond_gone(exchange, address.sandbox);
    } else if (!found) {
      refuse(exchange, found.error());
    } else {
      Call call(ground_, exchange, std::move(*found));
      if (address.port == kEnvdPort) {
        co_await answer_envd(call);
      } else {
        co_await answer_port(call, address.port);
      }
    }
  }

  Task<> answer_envd(Call& call) {
    const http::RequestHead& head = call.exchange.request();
    if (head.path() == "/health" && (head.method == "GET" || head.method == "HEAD")) {
      co_await answer_health(call);
      co_return;
    }
    if (head.path() == "/files") {
      co_await answer_files(call);
      co_return;
    }
    if (!has_access_token(head, *call.access)) {
      respond_failure(call.exchange, 401,
                      "unauthorized access, please provide a valid access token");
      co_return;
    }
    auto user = user_of(head);
    if (!user) {
      respond_failure(call.exchange, 401, "Authorization must be Basic with a user's name");
      co_return;
    }
    call.user = std::move(*user);
    if (head.method == "POST" && head.path() == "/files/compose") {
      co_await answer_compose(call);
    } else if (head.method == "GET" && head.path() == "/metrics") {
      co_await answer_metrics(call);
    } else if (head.method == "GET" && head.path() == "/envs") {
      co_await answer_environment(call);
    } else if (!co_await answer_rpc(call)) {
      respond_failure(call.exchange, 404, "there is no such method");
    }
  }

  Watchers watchers_;
  Call::Ground ground_;
  NamelessFiles nameless_files_;
  DataPlaneSettings settings_;
};

DataPlane::DataPlane(linux::Loop& loop, sandbox::Provider& provider, Directory& directory,
                     DataPlaneSettings settings)
    : door_(std::make_unique<Door>(loop, provider, directory, std::move(settings))) {}

DataPlane::~DataPlane() = default;

bool DataPlane::is_for_sandbox(const http::RequestHead& head) const {
  return door_->is_for_sandbox(head);
}

bool DataPlane::is_for_program(const http::RequestHead& head) const {
  return door_->is_for_program(head);
}

void DataPlane::refuse(http::Exchange& exchange, const Error& error) {
  if (!refuse_rpc(exchange, error)) respond_failure(exchange, error);
}

Task<> DataPlane::handle(http::Exchange& exchange) {
  return door_->handle(exchange);
}

}  // namespace pons::e2b
