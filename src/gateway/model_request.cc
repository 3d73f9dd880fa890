#include "model_request.h"

#include "pons/base/id.h"

namespace pons::gateway {

namespace {

using models::Failing;
using models::Failure;
using models::Protocol;

constexpr std::size_t kBodyBytesMax = std::size_t{32} << 20;

// What goes on to a provider of the same protocol, beside the body.
http::OwnedFields fields_for_provider(const http::RequestHead& head) {
  http::OwnedFields fields;
  for (const std::string_view name : {"anthropic-version", "anthropic-beta", "openai-beta"})
    if (const auto value = head.find(name)) fields.emplace_back(name, *value);
  return fields;
}

}  // namespace

Task<std::expected<ModelRequest, Failure>> read_model_request(http::Exchange& exchange,
                                                              Protocol protocol) {
  ModelRequest request{.protocol = protocol, .body = {}, .facts = {}};
  auto body = co_await exchange.read_whole_body(kBodyBytesMax);
  if (!body)
    co_return std::unexpected(
        body.error().code == ErrorCode::kLimit
            ? Failure{.kind = Failing::kTooLarge, .message = "the request is larger than 32 MB"}
            : Failure{.kind = Failing::kInvalidRequest, .message = body.error().message});
  request.body = std::move(*body);
  auto facts = models::read_facts(protocol, request.body);
  if (!facts)
    co_return std::unexpected(
        Failure{.kind = Failing::kInvalidRequest, .message = facts.error().message});
  request.facts = std::move(*facts);
  request.fields = fields_for_provider(exchange.request());
  co_return request;
}

Result<const models::Request*> ModelRequest::whole() {
  if (!read) read = TRY(models::protocol_text(protocol).read_request(body));
  return &*read;
}

std::string new_request_id() {
  return "req_" + random_text(24);
}

}  // namespace pons::gateway
