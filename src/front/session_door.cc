#include "session_door.h"

#include <algorithm>
#include <array>
#include <optional>

#include "pons/base/text.h"
#include "pons/models/protocol.h"

namespace pons::front {

namespace {

constexpr std::string_view kOwn = "/x/";
constexpr std::string_view kManaged = "/v1/";
constexpr auto kOwnCollections = std::to_array<std::string_view>(
    {"sessions", "agents", "api-keys", "environments", "project", "mcp-servers", "memory"});
constexpr std::string_view kVaults = "vaults";

// Followers say nothing for as long as nothing happens, but for keep-alives.
constexpr http::ClientLimits kBrainLimits{.first_byte_time = std::chrono::seconds(60),
                                          .idle_time = std::chrono::minutes(5),
                                          .idle_connections = 64};
constexpr std::size_t kConnectionsMax = 3'000;

bool is_for_brain(std::string_view field) {
  return equal_ignoring_case(field, "content-type") ||
         equal_ignoring_case(field, "last-event-id") ||
         equal_ignoring_case(field, "anthropic-worker-id");
}

// The word behind PREFIX; empty when the path begins otherwise.
std::string_view word_behind(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) return {};
  path.remove_prefix(prefix.size());
  return path.substr(0, path.find('/'));
}

// True for PREFIX + one of the words, alone or with more below it.
bool is_below(std::string_view path, std::string_view prefix, auto& words) {
  return std::ranges::find(words, word_behind(path, prefix)) != words.end();
}

// What a key must open for this request. Sessions are used, agents and what they work with are
// made; looking at either is less than both.
std::string_view needed_scope(const http::RequestHead& request) {
  const std::string_view path = request.path();
  const std::string_view own = word_behind(path, kOwn);
  if (own == "api-keys" || own == "project") return "admin";
  // A search has a body, and changes nothing.
  const bool only_looks =
      request.method == "GET" || request.method == "HEAD" || path == "/x/memory/search";
  if (only_looks) return "read";
  return own == "sessions" || word_behind(path, kManaged) == "sessions" ? "sessions" : "agents";
}

// All that is not a model's, also what is not there: its refusal has the shape of that API.
bool is_managed(const http::RequestHead& request) {
  return !word_behind(request.path(), kManaged).empty();
}

http::Response refusal(bool managed, const Error& error) {
  using models::Failing;
  if (!managed) return refusal_of(error);
  const Failing kind = error.code == ErrorCode::kUnavailable ? Failing::kOverloaded
                       : error.code == ErrorCode::kConflict  ? Failing::kPermission
                       : error.code == ErrorCode::kLimit     ? Failing::kRateLimit
                                                             : Failing::kAuthentication;
  models::ErrorBody body = models::protocol_text(models::Protocol::kMessages)
                               .write_error({.kind = kind, .message = error.message}, "");
  return {.status = body.status, .body = std::move(body.body)};
}

}  // namespace

SessionDoor::SessionDoor(linux::Loop& loop, Admission& admission, RoleLine& brain,
                         http::Client& egress, std::size_t streams_of_key_max)
    : loop_(loop),
      admission_(admission),
      brain_(loop, brain.connector(kConnectionsMax), "brain", kBrainLimits),
      egress_(egress),
      streams_(streams_of_key_max) {}

bool SessionDoor::is_for_session(const http::RequestHead& request) {
  return is_below(request.path(), kOwn, kOwnCollections) || is_managed(request);
}

Task<> SessionDoor::handle(RecordedExchange& exchange) {
  const http::RequestHead& request = exchange.request();
  const bool managed = is_managed(request);
  const auto identity = admission_.admit(request, needed_scope(request));
  if (!identity) {
    exchange.respond(refusal(managed, identity.error()));
    co_return;
  }
  exchange.set_key(identity->key);
  // Values of credentials never come near the brain.
  const bool is_for_egress = word_behind(request.path(), kManaged) == kVaults;
  // What a worker's token is for, the brain knows on the paths of the API; elsewhere, nothing.
  if (!identity->session.empty() && (!managed || is_for_egress)) {
    exchange.respond(refusal(
        managed, make_error(ErrorCode::kConflict, "admit", "this token is for one session only")));
    co_return;
  }
  // A stream may be open for days: it counts while it is, and ends with its key.
  std::optional<OpenStreams::Place> place;
  const bool is_stream = request.method == "GET" && request.path().ends_with("/stream");
  if (is_stream) {
    auto entered = streams_.enter(identity->key);
    if (!entered) {
      exchange.respond(refusal(managed, entered.error()));
      co_return;
    }
    place.emplace(std::move(*entered));
  }
  std::function<Task<>()> until;
  if (is_stream) until = [this, key = identity->key] { return admission_.wait_until_gone(key); };
  http::OwnedFields caller = {{"x-pons-project", identity->project},
                              {"x-pons-key", identity->key},
                              {"x-request-id", exchange.id()}};
  if (!identity->session.empty()) caller.emplace_back("x-pons-session", identity->session);
  // Inside, our own paths begin without /x.
  const std::size_t left_out = managed ? 0 : kOwn.size() - 1;
  co_await pass_on(loop_, exchange,
                   {.role = is_for_egress ? egress_ : brain_,
                    .target = std::string(request.target.substr(left_out)),
                    .caller = std::move(caller),
                    .is_wanted = is_for_brain,
                    .if_silent =
                        [managed, is_for_egress] {
                          return refusal(
                              managed,
                              make_error(ErrorCode::kUnavailable, "pass on",
                                         is_for_egress ? "egress does not answer; try again"
                                                       : "the brain does not answer; try again"));
                        },
                    .until = std::move(until)});
}

}  // namespace pons::front
