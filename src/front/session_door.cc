#include "session_door.h"

#include "pons/base/text.h"
#include "pons/http/error_status.h"

namespace pons::front {

namespace {

constexpr std::string_view kOwn = "/x";

// Followers say nothing for as long as nothing happens, but for keep-alives.
constexpr http::ClientLimits kBrainLimits{.first_byte_time = std::chrono::seconds(60),
                                          .idle_time = std::chrono::minutes(5),
                                          .idle_connections = 64};
constexpr std::size_t kConnectionsMax = 3'000;

bool is_for_brain(std::string_view field) {
  return equal_ignoring_case(field, "content-type") || equal_ignoring_case(field, "last-event-id");
}

}  // namespace

SessionDoor::SessionDoor(linux::Loop& loop, const Keys& keys, RoleLine& brain)
    : loop_(loop),
      keys_(keys),
      brain_(loop, brain.connector(kConnectionsMax), "brain", kBrainLimits) {}

bool SessionDoor::is_for_session(const http::RequestHead& request) {
  const std::string_view path = request.path();
  return path == "/x/sessions" || path.starts_with("/x/sessions/") || path == "/x/agents";
}

Task<> SessionDoor::handle(RecordedExchange& exchange) {
  const http::RequestHead& request = exchange.request();
  const auto identity = keys_.identify(request);
  if (!identity) {
    exchange.respond(http::error_response(identity.error()));
    co_return;
  }
  exchange.set_key(identity->key);
  if (!identity->may("sessions")) {
    exchange.respond(http::error_response(403, "denied", "this API key may not use sessions"));
    co_return;
  }
  co_await pass_on(loop_, exchange,
                   {.role = brain_,
                    .target = std::string(request.target.substr(kOwn.size())),
                    .caller = {{"x-pons-project", identity->project}},
                    .is_wanted = is_for_brain,
                    .if_silent = [] {
                      return http::error_response(503, "unavailable",
                                                  "the brain does not answer; try again");
                    }});
}

}  // namespace pons::front
