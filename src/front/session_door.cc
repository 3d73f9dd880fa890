#include "session_door.h"

#include <algorithm>
#include <array>

#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "pons/models/protocol.h"

namespace pons::front {

namespace {

constexpr std::string_view kOwn = "/x/";
constexpr std::string_view kManaged = "/v1/";
constexpr std::array<std::string_view, 4> kOwnCollections = {"agents", "mcp-servers", "memory",
                                                             "sessions"};
constexpr std::array<std::string_view, 6> kManagedCollections = {
    "agents", "deployment_runs", "deployments", "environments", "memory_stores", "sessions"};

// Followers say nothing for as long as nothing happens, but for keep-alives.
constexpr http::ClientLimits kBrainLimits{.first_byte_time = std::chrono::seconds(60),
                                          .idle_time = std::chrono::minutes(5),
                                          .idle_connections = 64};
constexpr std::size_t kConnectionsMax = 3'000;

bool is_for_brain(std::string_view field) {
  return equal_ignoring_case(field, "content-type") || equal_ignoring_case(field, "last-event-id");
}

// True for PREFIX + one of the words, alone or with more below it.
bool is_below(std::string_view path, std::string_view prefix, auto& words) {
  if (!path.starts_with(prefix)) return false;
  path.remove_prefix(prefix.size());
  return std::ranges::find(words, path.substr(0, path.find('/'))) != words.end();
}

bool is_managed(const http::RequestHead& request) {
  return is_below(request.path(), kManaged, kManagedCollections);
}

http::Response refusal(bool managed, const Error& error) {
  using models::Failing;
  if (!managed && error.code == ErrorCode::kConflict)
    return http::error_response(403, "denied", error.message);
  if (!managed) return http::error_response(error);
  const Failing kind = error.code == ErrorCode::kUnavailable ? Failing::kOverloaded
                       : error.code == ErrorCode::kConflict  ? Failing::kPermission
                                                             : Failing::kAuthentication;
  models::ErrorBody body = models::protocol_text(models::Protocol::kMessages)
                               .write_error({.kind = kind, .message = error.message}, "");
  return {.status = body.status, .body = std::move(body.body)};
}

// kConflict: it is a key, but not for this.
Result<Identity> find_caller(const Keys& keys, const http::RequestHead& request) {
  auto identity = TRY(keys.identify(request));
  if (!identity.may("sessions"))
    return make_error(ErrorCode::kConflict, "identify", "this API key may not use sessions");
  return identity;
}

}  // namespace

SessionDoor::SessionDoor(linux::Loop& loop, const Keys& keys, RoleLine& brain)
    : loop_(loop),
      keys_(keys),
      brain_(loop, brain.connector(kConnectionsMax), "brain", kBrainLimits) {}

bool SessionDoor::is_for_session(const http::RequestHead& request) {
  return is_below(request.path(), kOwn, kOwnCollections) || is_managed(request);
}

Task<> SessionDoor::handle(RecordedExchange& exchange) {
  const http::RequestHead& request = exchange.request();
  const bool managed = is_managed(request);
  const auto identity = find_caller(keys_, request);
  if (!identity) {
    exchange.respond(refusal(managed, identity.error()));
    co_return;
  }
  exchange.set_key(identity->key);
  // Inside, our own paths begin without /x.
  const std::size_t left_out = managed ? 0 : kOwn.size() - 1;
  co_await pass_on(loop_, exchange,
                   {.role = brain_,
                    .target = std::string(request.target.substr(left_out)),
                    .caller = {{"x-pons-project", identity->project},
                               {"x-pons-key", identity->key},
                               {"x-request-id", exchange.id()}},
                    .is_wanted = is_for_brain,
                    .if_silent = [managed] {
                      return refusal(managed, make_error(ErrorCode::kUnavailable, "ask brain",
                                                         "the brain does not answer; try again"));
                    }});
}

}  // namespace pons::front
