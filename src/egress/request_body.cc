#include "request_body.h"

#include "pons/base/text.h"

namespace pons::egress {

namespace {

// Between two pieces of a body that is sent at once there is less, also on a busy machine. Kinds of
// gRPC often wait for an answer before they end.
constexpr Duration kPause = std::chrono::milliseconds(500);
constexpr Duration kPauseOfCalls = std::chrono::milliseconds(50);

Error stopped() {
  return make_error(ErrorCode::kDenied, "send request body", "it holds what must not leave");
}

}  // namespace

RequestBody::Lookout::Lookout(const scan::NeedleSets& sets) {
  if (!sets.empty()) sent.emplace(sets);
}

void RequestBody::Lookout::take(std::optional<scan::Scanner>& scanner, std::string_view piece) {
  if (scanner && !found) found = scanner->feed(piece);
}

void RequestBody::Lookout::see_end() {
  for (auto* scanner : {&sent, &read})
    if (*scanner && !found) found = (*scanner)->finish();
}

RequestBody::RequestBody(http::Exchange& exchange, const Judged& judged)
    : exchange_(&exchange),
      forbidden_(exchange.request().framing == http::BodyFraming::kNone ? scan::NeedleSets()
                                                                        : judged.forbidden),
      tolerated_(exchange.request().framing == http::BodyFraming::kNone ? scan::NeedleSets()
                                                                        : judged.tolerated),
      bindings_(judged.body_bindings) {}

std::expected<RequestBody, Refusal> RequestBody::open(Boundary& boundary, AttachedSandbox& sandbox,
                                                      http::Exchange& exchange,
                                                      const Judged& judged) {
  RequestBody body(exchange, judged);
  const http::RequestHead& head = exchange.request();
  if (head.framing == http::BodyFraming::kNone) return body;
  body.pause_ = GrpcMessages::find(head.fields) ? kPauseOfCalls : kPause;
  if (!body.bindings_.empty()) body.form_ = form_of(head);
  if (!judged.credential_names.empty()) body.fields_.emplace(head, judged.credential_names);
  std::string codings;
  if (!judged.forbidden.empty() || body.fields_) {
    for (const http::Field& field : head.fields)
      if (vault::is_same_field_name(field.name, "content-encoding"))
        codings.append(codings.empty() ? "" : ",").append(field.value);
    body.messages_ = GrpcMessages::find(head.fields);
  }
  auto decoder = scan::ContentDecoder::create(codings);
  if (!decoder)
    return std::unexpected(Refusal{.code = "undecodable_body",
                                   .reason = "the body's Content-Encoding cannot be looked into",
                                   .hint = "send it as gzip, deflate, br, zstd or without coding",
                                   .rule = {}});
  const std::size_t unpacking = body.messages_ ? body.messages_->memory_bytes_max() : 0;
  auto memory =
      take_body_memory(boundary, sandbox, kSmallBytes + decoder->memory_bytes_max() + unpacking);
  if (!memory) return std::unexpected(memory.error());
  body.memory_ = std::move(*memory);
  if (codings.empty() && !body.messages_) return body;
  if (!codings.empty()) body.decoder_.emplace(std::move(*decoder));
  if (!judged.forbidden.empty()) body.forbidden_.read.emplace(judged.forbidden);
  if (!judged.tolerated.empty()) body.tolerated_.read.emplace(judged.tolerated);
  return body;
}

Task<Result<void>> RequestBody::look_through(std::string_view piece) {
  const bool is_packed = decoder_ || messages_;
  const std::size_t slice_bytes = is_packed ? Turn::kPackedSliceBytes : Turn::kSliceBytes;
  while (!piece.empty()) {
    const std::string_view slice = piece.substr(0, slice_bytes);
    piece.remove_prefix(slice.size());
    turn_.begin();
    CO_TRY_VOID(look_at(slice));
    if (turn_.is_over()) co_await exchange_->loop().next_round();
  }
  co_return Result<void>();
}

Result<void> RequestBody::look_at(std::string_view piece) {
  bytes_ += piece.size();
  forbidden_.see(piece);
  tolerated_.see(piece);
  if (!finding()) {
    const auto looked =
        decoder_ ? decoder_->feed(piece, [&](std::string_view clear) { return look_inside(clear); })
                 : look_inside(piece);
    undecodable_ = !looked && !finding() && !foreign_;
  }
  if (is_stopped()) return stopped();
  return {};
}

Result<void> RequestBody::look_at_fields(std::string_view clear) {
  foreign_ = foreign_ || (fields_ && fields_->feed(clear));
  return foreign_ ? Result<void>(stopped()) : Result<void>();
}

// What is left when Content-Encoding is undone.
Result<void> RequestBody::look_inside(std::string_view clear) {
  if (!messages_) {
    TRY_VOID(look_at_decoded(clear));  // first: what is ours deserves its own answer
  } else {
    TRY_VOID(messages_->feed(clear, [&](GrpcMessages::Part part, std::string_view bytes) {
      return part == GrpcMessages::Part::kUnpackedEnd ? Result<void>() : look_at_decoded(bytes);
    }));
  }
  return look_at_fields(clear);
}

Result<void> RequestBody::look_at_decoded(std::string_view clear) {
  forbidden_.see_decoded(clear);
  tolerated_.see_decoded(clear);
  return finding() ? Result<void>(stopped()) : Result<void>();
}

Result<void> RequestBody::look_at_end() {
  undecodable_ = (decoder_ && !decoder_->finish()) || (messages_ && !messages_->finish());
  forbidden_.see_end();
  tolerated_.see_end();
  if (is_stopped()) return stopped();
  return {};
}

Task<Result<std::string_view>> RequestBody::next() {
  if (is_stopped()) co_return stopped();
  if (!taken_.empty()) {
    exchange_piece_ = std::exchange(taken_, {});
    co_return exchange_piece_;
  }
  if (ended_) co_return std::string_view();
  CO_TRY(const std::string_view piece, co_await read_piece());
  if (piece.empty()) {
    ended_ = true;
    CO_TRY_VOID(look_at_end());
  } else {
    CO_TRY_VOID(co_await look_through(piece));
  }
  co_return piece;
}

Task<> RequestBody::await_piece() {
  awaited_->piece = co_await exchange_->read_body();
  awaited_->came.set();
}

Task<bool> RequestBody::comes_soon() {
  linux::Loop& loop = exchange_->loop();
  if (awaited_ == nullptr) {
    awaited_ = std::make_unique<Awaited>(loop);
    awaited_->reader.spawn(await_piece());
  }
  co_return co_await awaited_->came.wait(loop.now() + pause_) == linux::Wait::kReady;
}

Task<Result<std::string_view>> RequestBody::read_piece() {
  if (awaited_ == nullptr) co_return co_await exchange_->read_body();
  co_await awaited_->came.wait(kNever);  // reading has a deadline of its own
  auto piece = *std::move(awaited_->piece);
  awaited_.reset();
  co_return piece;
}

Task<Result<std::optional<std::string>>> RequestBody::take_small() {
  if (form_ != BodyForm::kOther) co_return co_await take_and_swap();
  const bool may_pause = exchange_->request().framing == http::BodyFraming::kChunked;
  std::string all;
  while (!ended_) {
    if (may_pause && !co_await comes_soon()) {
      taken_ = std::move(all);
      co_return std::nullopt;
    }
    CO_TRY(const std::string_view piece, co_await next());
    all += piece;
    if (all.size() > kSmallBytes) {
      taken_ = std::move(all);
      co_return std::nullopt;
    }
  }
  co_return std::optional(std::move(all));
}

// Looked at only when it is whole, and without what was swapped. A longer one gets no secret, and
// may hold no stub.
Task<Result<std::optional<std::string>>> RequestBody::take_and_swap() {
  std::string all;
  while (!ended_) {
    CO_TRY(const std::string_view piece, co_await exchange_->read_body());
    ended_ = piece.empty();
    all += piece;
    if (all.size() <= kSmallBytes) continue;
    CO_TRY_VOID(co_await look_through(all));
    taken_ = std::move(all);
    co_return std::nullopt;
  }
  SwappedBody swapped = swap_body(form_, all, bindings_);
  if (fields_)
    for (std::string& name : swapped.filled) fields_->expect(std::move(name));
  CO_TRY_VOID(co_await look_through(swapped.seen));
  CO_TRY_VOID(look_at_end());
  bytes_ = all.size();
  foreign_ = foreign_ || swapped.has_foreign;
  if (foreign_) co_return stopped();
  swapped_ = std::move(swapped.used);
  co_return std::optional(std::move(swapped.sent));
}

}  // namespace pons::egress
