#include "model_door.h"

#include <algorithm>
#include <array>

#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "pons/models/protocol.h"

namespace pons::front {

namespace {

using models::Failing;
using models::Protocol;

struct Endpoint {
  std::string_view path;
  Protocol protocol;  // the shape of errors
};

constexpr std::array<Endpoint, 6> kEndpoints = {{{"/v1/messages", Protocol::kMessages},
                                                 {"/v1/messages/count_tokens", Protocol::kMessages},
                                                 {"/v1/chat/completions", Protocol::kChat},
                                                 {"/v1/responses", Protocol::kResponses},
                                                 {"/v1/models", Protocol::kChat},
                                                 {"/x/usage", Protocol::kChat}}};

const Endpoint* endpoint_of(std::string_view path) {
  constexpr std::string_view kModels = "/v1/models";
  if (path.starts_with(kModels) && path.substr(kModels.size()).starts_with('/')) path = kModels;
  const auto* const found = std::ranges::find(kEndpoints, path, &Endpoint::path);
  return found == kEndpoints.end() ? nullptr : found;
}

// Keys of `pons keys` are the gateway's own to check; their form says so.
constexpr std::string_view kModelKeyPrefix = "ponsm_";

bool is_model_key(std::string_view text) {
  constexpr std::size_t kDigits = 40;
  if (!text.starts_with(kModelKeyPrefix)) return false;
  const std::string_view digits = text.substr(kModelKeyPrefix.size());
  return digits.size() == kDigits && digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

// Longer than the gateway waits for any provider: its own answer comes first.
constexpr http::ClientLimits kGatewayLimits{.first_byte_time = std::chrono::hours(25),
                                            .idle_time = std::chrono::hours(25),
                                            .idle_connections = 64};
constexpr std::size_t kCallsMax = 3'000;
constexpr std::uint64_t kBodyBytesMax = 32ULL << 20;

http::Response refusal(Protocol protocol, models::Failure failure) {
  models::ErrorBody error = models::protocol_text(protocol).write_error(failure, "");
  return {.status = error.status, .body = std::move(error.body)};
}

bool is_for_gateway(std::string_view field) {
  for (const std::string_view name :
       {"content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta",
        "x-session-id", "x-claude-code-session-id", "traceparent"})
    if (equal_ignoring_case(field, name)) return true;
  return false;
}

}  // namespace

ModelDoor::ModelDoor(linux::Loop& loop, Admission& admission, RoleLine& gateway)
    : loop_(loop),
      admission_(admission),
      gateway_(loop, gateway.connector(kCallsMax), "gateway", kGatewayLimits) {}

bool ModelDoor::is_for_model(const http::RequestHead& request) {
  return endpoint_of(request.path()) != nullptr;
}

Result<http::OwnedFields> ModelDoor::identify(RecordedExchange& exchange) {
  const http::RequestHead& request = exchange.request();
  const std::string_view shown = shown_key(request);
  if (is_model_key(shown))
    return http::OwnedFields{{"x-pons-key-hash", sha256_hex(shown.substr(kModelKeyPrefix.size()))}};
  const Identity identity = TRY(admission_.admit(request, "models"));
  exchange.set_key(identity.key);
  return http::OwnedFields{{"x-pons-project", identity.project}};
}

Task<> ModelDoor::handle(RecordedExchange& exchange) {
  const Protocol protocol = endpoint_of(exchange.request().path())->protocol;
  if (exchange.request().content_length > kBodyBytesMax) {
    exchange.respond(refusal(
        protocol, {.kind = Failing::kTooLarge, .message = "the request is larger than 32 MB"}));
    co_return;
  }
  auto caller = identify(exchange);
  if (!caller) {
    const ErrorCode code = caller.error().code;
    exchange.respond(
        refusal(protocol, {.kind = code == ErrorCode::kUnavailable ? Failing::kOverloaded
                                   : code == ErrorCode::kConflict  ? Failing::kPermission
                                   : code == ErrorCode::kLimit     ? Failing::kRateLimit
                                                                   : Failing::kAuthentication,
                           .message = caller.error().message}));
    co_return;
  }
  co_await pass_on(loop_, exchange,
                   {.role = gateway_,
                    .target = std::string(exchange.request().target),
                    .caller = std::move(*caller),
                    .is_wanted = is_for_gateway,
                    .if_silent = [protocol] {
                      return refusal(protocol,
                                     {.kind = Failing::kOverloaded,
                                      .message = "the gateway does not answer; try again"});
                    }});
}

}  // namespace pons::front
