#include "mcp_door.h"

#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "pons/mcp/origin.h"
#include "pons/mcp/protocol.h"

namespace pons::front {

namespace {

// Whoever waits for a tool, or listens, hears keep-alives.
constexpr http::ClientLimits kBrainLimits{.first_byte_time = std::chrono::seconds(60),
                                          .idle_time = std::chrono::minutes(2),
                                          .idle_connections = 64};
constexpr std::size_t kConnectionsMax = 1'000;

bool is_for_brain(std::string_view field) {
  for (const std::string_view name : {std::string_view("content-type"), std::string_view("accept"),
                                      mcp::kSessionField, mcp::kVersionField})
    if (equal_ignoring_case(field, name)) return true;
  return false;
}

}  // namespace

McpDoor::McpDoor(linux::Loop& loop, Admission& admission, RoleLine& brain, std::string domain)
    : loop_(loop),
      admission_(admission),
      brain_(loop, brain.connector(kConnectionsMax), "brain", kBrainLimits),
      domain_(std::move(domain)) {}

Task<> McpDoor::handle(RecordedExchange& exchange) {
  const http::RequestHead& request = exchange.request();
  const auto origin = request.find("origin");
  if (origin && !mcp::is_own_origin(*origin, domain_)) {
    exchange.respond(http::error_response(403, "denied", "pages of this origin may not use MCP"));
    co_return;
  }
  const auto identity = admission_.admit(request, "mcp");
  if (!identity) {
    exchange.respond(refusal_of(identity.error()));
    co_return;
  }
  exchange.set_key(identity->key);
  co_await pass_on(loop_, exchange,
                   {.role = brain_,
                    .target = "/mcp",
                    .caller = {{"x-pons-project", identity->project}},
                    .is_wanted = is_for_brain,
                    .if_silent = [] {
                      return http::error_response(503, "unavailable",
                                                  "the brain does not answer; try again");
                    }});
}

}  // namespace pons::front
