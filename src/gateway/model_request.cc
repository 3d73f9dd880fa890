#include "model_request.h"

#include <algorithm>

#include "pons/base/id.h"
#include "pons/models/limits.h"

namespace pons::gateway {

namespace {

using models::Failing;
using models::Failure;
using models::kRequestBytesMax;
using models::Protocol;

// As far as a client is believed that has sent nothing yet.
constexpr std::size_t kReservedMax = std::size_t{1} << 20;
constexpr std::size_t kPadding = 64;  // that the reader of JSON wants behind it

// What goes on to a provider of the same protocol, beside the body.
http::OwnedFields fields_for_provider(const http::RequestHead& head) {
  http::OwnedFields fields;
  for (const std::string_view name : {"anthropic-version", "anthropic-beta", "openai-beta"})
    if (const auto value = head.find(name)) fields.emplace_back(name, *value);
  return fields;
}

Failure no_room() {
  return {.kind = Failing::kOverloaded,
          .message = "too many large requests at the same time; try again",
          .retry_after = std::chrono::seconds(1)};
}

Failure too_large() {
  return {.kind = Failing::kTooLarge, .message = "the request is larger than 32 MB"};
}

// What was announced is judged before a byte of it is taken, what comes as it comes.
Task<std::expected<std::string, Failure>> read_body(http::Exchange& exchange, BodyShare& share) {
  const http::RequestHead& head = exchange.request();
  std::string body;
  if (head.framing == http::BodyFraming::kLength) {
    if (head.content_length > kRequestBytesMax) co_return std::unexpected(too_large());
    if (!share.has_room_for(head.content_length)) co_return std::unexpected(no_room());
    body.reserve(std::min<std::size_t>(head.content_length, kReservedMax) + kPadding);
  }
  while (true) {
    const auto piece = co_await exchange.read_body();
    if (!piece)
      co_return std::unexpected(
          piece.error().code == ErrorCode::kLimit
              ? too_large()
              : Failure{.kind = Failing::kInvalidRequest, .message = piece.error().message});
    if (piece->empty()) co_return body;
    if (body.size() + piece->size() > kRequestBytesMax) co_return std::unexpected(too_large());
    if (!share.grow_to(body.size() + piece->size())) co_return std::unexpected(no_room());
    body += *piece;
  }
}

}  // namespace

Task<std::expected<ModelRequest, Failure>> read_model_request(http::Exchange& exchange,
                                                              Protocol protocol,
                                                              BodyMemory& memory) {
  ModelRequest request{.protocol = protocol, .body = {}, .share = BodyShare(memory)};
  auto body = co_await read_body(exchange, request.share);
  if (!body) co_return std::unexpected(std::move(body.error()));
  request.body = std::move(*body);
  request.body_bytes = request.body.size();
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

void ModelRequest::forget_body() {
  body = std::string();
  if (read) read->messages = {};
  share.leave();
}

std::string new_request_id() {
  return "req_" + random_text(24);
}

}  // namespace pons::gateway
