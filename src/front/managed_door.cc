#include "managed_door.h"

#include <algorithm>
#include <array>

#include "pons/base/text.h"
#include "pons/models/protocol.h"

namespace pons::front {

namespace {

using models::Failing;

constexpr std::array<std::string_view, 5> kCollections = {"agents", "environments", "sessions",
                                                          "deployments", "deployment_runs"};

// Followers say nothing for as long as nothing happens, but for keep-alives.
constexpr http::ClientLimits kBrainLimits{.first_byte_time = std::chrono::seconds(60),
                                          .idle_time = std::chrono::minutes(5),
                                          .idle_connections = 64};
constexpr std::size_t kConnectionsMax = 3'000;

bool is_for_brain(std::string_view field) {
  return equal_ignoring_case(field, "content-type") || equal_ignoring_case(field, "last-event-id");
}

http::Response refusal(Failing kind, std::string message) {
  models::ErrorBody error = models::protocol_text(models::Protocol::kMessages)
                                .write_error({.kind = kind, .message = std::move(message)}, "");
  return {.status = error.status, .body = std::move(error.body)};
}

}  // namespace

ManagedDoor::ManagedDoor(linux::Loop& loop, const Keys& keys, RoleLine& brain)
    : loop_(loop),
      keys_(keys),
      brain_(loop, brain.connector(kConnectionsMax), "brain", kBrainLimits) {}

bool ManagedDoor::is_for_managed(const http::RequestHead& request) {
  constexpr std::string_view kVersion = "/v1/";
  std::string_view path = request.path();
  if (!path.starts_with(kVersion)) return false;
  path.remove_prefix(kVersion.size());
  return std::ranges::find(kCollections, path.substr(0, path.find('/'))) != kCollections.end();
}

Task<> ManagedDoor::handle(RecordedExchange& exchange) {
  const http::RequestHead& request = exchange.request();
  const auto identity = keys_.identify(request);
  if (!identity) {
    exchange.respond(refusal(identity.error().code == ErrorCode::kUnavailable
                                 ? Failing::kOverloaded
                                 : Failing::kAuthentication,
                             identity.error().message));
    co_return;
  }
  exchange.set_key(identity->key);
  if (!identity->may("sessions")) {
    exchange.respond(refusal(Failing::kPermission, "this API key may not use sessions"));
    co_return;
  }
  co_await pass_on(loop_, exchange,
                   {.role = brain_,
                    .target = std::string(request.target),
                    .caller = {{"x-pons-project", identity->project},
                               {"x-pons-key", identity->key},
                               {"x-request-id", exchange.id()}},
                    .is_wanted = is_for_brain,
                    .if_silent = [] {
                      return refusal(Failing::kOverloaded, "the brain does not answer; try again");
                    }});
}

}  // namespace pons::front
