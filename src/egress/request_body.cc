#include "request_body.h"

namespace pons::egress {

namespace {

Error stopped() {
  return make_error(ErrorCode::kDenied, "send request body", "it holds what must not leave");
}

}  // namespace

RequestBody::RequestBody(http::Exchange& exchange, scan::NeedleSets forbidden)
    : exchange_(&exchange), forbidden_(std::move(forbidden)) {
  const bool has_body = exchange.request().framing != http::BodyFraming::kNone;
  if (!forbidden_.empty() && has_body) scanner_.emplace(forbidden_);
}

std::expected<RequestBody, Refusal> RequestBody::open(Boundary& boundary, AttachedSandbox& sandbox,
                                                      http::Exchange& exchange,
                                                      const Judged& judged) {
  RequestBody body(exchange, judged.forbidden);
  if (exchange.request().framing == http::BodyFraming::kNone) return body;
  std::string codings;
  for (const http::Field& field : exchange.request().fields)
    if (equal_ignoring_case(field.name, "content-encoding"))
      codings.append(codings.empty() ? "" : ",").append(field.value);
  if (body.forbidden_.empty()) codings.clear();
  if (body.scanner_) body.messages_ = GrpcMessages::find(exchange.request().fields);
  if (body.messages_) body.decoded_scanner_.emplace(body.forbidden_);
  auto decoder = scan::ContentDecoder::create(codings);
  if (!decoder)
    return std::unexpected(Refusal{.code = "undecodable_body",
                                   .reason = "the body's Content-Encoding cannot be looked into",
                                   .hint = "send it as gzip, deflate, br, zstd or without coding",
                                   .rule = {}});
  auto memory = take_body_memory(boundary, sandbox, kSmallBytes + decoder->memory_bytes_max());
  if (!memory) return std::unexpected(memory.error());
  body.memory_ = std::move(*memory);
  if (codings.empty()) return body;
  body.decoder_.emplace(std::move(*decoder));
  if (!body.decoded_scanner_) body.decoded_scanner_.emplace(body.forbidden_);
  return body;
}

Result<void> RequestBody::look_at(std::string_view piece) {
  bytes_ += piece.size();
  if (scanner_) finding_ = scanner_->feed(piece);
  if (!finding_ && decoded_scanner_) {
    const auto looked =
        decoder_ ? decoder_->feed(piece, [&](std::string_view clear) { return look_inside(clear); })
                 : look_inside(piece);
    undecodable_ = !looked && !finding_;
  }
  if (finding_ || undecodable_) return stopped();
  return {};
}

// What is left when Content-Encoding is undone.
Result<void> RequestBody::look_inside(std::string_view clear) {
  const auto scan = [&](std::string_view bytes) {
    finding_ = decoded_scanner_->feed(bytes);
    return finding_ ? Result<void>(stopped()) : Result<void>();
  };
  if (!messages_) return scan(clear);
  return messages_->feed(clear, [&](GrpcMessages::Part part, std::string_view bytes) {
    return part == GrpcMessages::Part::kUnpackedEnd ? Result<void>() : scan(bytes);
  });
}

Result<void> RequestBody::look_at_end() {
  if (scanner_) finding_ = scanner_->finish();
  if (!finding_ && decoded_scanner_) {
    undecodable_ = (decoder_ && !decoder_->finish()) || (messages_ && !messages_->finish());
    if (!undecodable_) finding_ = decoded_scanner_->finish();
  }
  if (finding_ || undecodable_) return stopped();
  return {};
}

Task<Result<std::string_view>> RequestBody::next() {
  if (finding_ || undecodable_) co_return stopped();
  if (!taken_.empty()) {
    exchange_piece_ = std::exchange(taken_, {});
    co_return exchange_piece_;
  }
  if (ended_) co_return std::string_view();
  CO_TRY(const std::string_view piece, co_await exchange_->read_body());
  if (piece.empty()) {
    ended_ = true;
    CO_TRY_VOID(look_at_end());
  } else {
    CO_TRY_VOID(look_at(piece));
  }
  co_return piece;
}

Task<Result<std::optional<std::string>>> RequestBody::take_small() {
  std::string all;
  while (!ended_) {
    CO_TRY(const std::string_view piece, co_await next());
    all += piece;
    if (all.size() > kSmallBytes) {
      taken_ = std::move(all);
      co_return std::nullopt;
    }
  }
  co_return std::optional(std::move(all));
}

}  // namespace pons::egress
