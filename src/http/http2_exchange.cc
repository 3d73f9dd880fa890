#include "http2_exchange.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::http {

Http2Exchange::Http2Exchange(linux::Loop& loop, Http2Session& session,
                             std::shared_ptr<Http2Stream> stream, const Peer& peer,
                             const Http2Limits& limits)
    : loop_(loop), session_(session), stream_(std::move(stream)), peer_(peer), limits_(limits) {}

Refusal Http2Exchange::settle(std::string_view scheme) {
  if (stream_->is_too_large) return {431, "the fields are too large or too many"};
  const auto refusal = settle_http2_request(stream_->head_block(), scheme, limits_.head,
                                            stream_->has_only_head(), head_);
  if (refusal) head_.clear();
  continue_wanted_ = head_.expect_continue;
  return refusal;
}

void Http2Exchange::complete() {
  if (reply_ == Reply::kStreaming) abort();  // not finished: it must not look complete
  if (reply_ == Reply::kNone)
    respond(error_response(500, "internal", "the server failed to answer; its log says why"));
}

// ---- the request

Error Http2Exchange::refuse_body() const {
  return make_error(ErrorCode::kLimit, "read request body",
                    fmt::format("the body is larger than {} bytes", limits_.body_bytes));
}

Task<Result<std::string_view>> Http2Exchange::read_body() {
  if (head_.framing == BodyFraming::kLength && head_.content_length > limits_.body_bytes)
    co_return refuse_body();
  if (std::exchange(continue_wanted_, false) && reply_ == Reply::kNone && !stream_->is_closed()) {
    FieldsToSend interim;
    interim.add(":status", "100");
    session_.submit_interim(*stream_, interim);
  }
  // Once the answer flows, a client may well have nothing to say for a while.
  const Duration idle = reply_ == Reply::kNone ? limits_.body_idle_time : limits_.duplex_idle_time;
  CO_TRY(const std::string_view piece, co_await stream_->read(idle));
  body_taken_ += piece.size();
  if (body_taken_ > limits_.body_bytes) co_return refuse_body();
  co_return piece;
}

Task<bool> Http2Exchange::wait_for_hang_up(TimePoint deadline) {
  co_return co_await stream_->over.wait(deadline) == linux::Wait::kReady;
}

// ---- the answer

bool Http2Exchange::has_body(int status) const {
  return status != 204 && status != 304 && head_.method != "HEAD";
}

Result<void> Http2Exchange::submit_head(const Response& response,
                                        std::optional<std::uint64_t> length) {
  if (stream_->is_closed()) return stream_->why_closed("start answer");
  const std::string status = fmt::format("{}", response.status);
  const std::string length_text = length ? fmt::format("{}", *length) : "";
  const std::string date = http_date();
  FieldsToSend list;
  list.add(":status", status);
  const auto is_date = [](const auto& field) { return equal_ignoring_case(field.first, "date"); };
  if (std::ranges::none_of(response.fields, is_date)) list.add("date", date);
  if (!response.content_type.empty()) list.add("content-type", response.content_type);
  if (length) list.add("content-length", length_text);
  for (const auto& [name, value] : response.fields) {
    CHECK(is_token(name) && is_field_value(value));
    // What one handler says about an HTTP/1.1 connection does not concern this one.
    if (!is_connection_specific(name)) list.add_lowered(name, value);
  }
  return session_.submit_head(*stream_, list, sends_body_);
}

void Http2Exchange::respond(Response response) {
  CHECK(reply_ == Reply::kNone);
  reply_ = Reply::kFinished;
  const bool bodyless = response.status == 204 || response.status == 304;
  const bool has_trailers = !trailers_to_send_.empty();
  sends_body_ = has_body(response.status) && (!response.body.empty() || has_trailers);
  const auto length = bodyless ? std::nullopt : std::optional<std::uint64_t>(response.body.size());
  if (!submit_head(response, length) || !sends_body_) return;
  stream_->write_whole(std::move(response.body));
  stream_->end(std::move(trailers_to_send_));
}

Task<Result<void>> Http2Exchange::start(Response head) {
  CHECK(reply_ == Reply::kNone);
  reply_ = Reply::kStreaming;
  sends_body_ = has_body(head.status);
  if (sends_body_) body_left_ = head.content_length;
  auto started = submit_head(head, head.status != 204 ? head.content_length : std::nullopt);
  if (started && !head.body.empty()) started = co_await write(head.body);
  if (!started) abort();
  co_return started;
}

Task<Result<void>> Http2Exchange::write(std::string_view bytes) {
  if (reply_ != Reply::kStreaming)
    co_return make_error(ErrorCode::kUnavailable, "write answer", "the answer is over");
  if (!sends_body_) co_return {};
  if (body_left_ && bytes.size() > *body_left_) {
    abort();
    co_return make_error(ErrorCode::kInvalid, "write answer", "the body has another length");
  }
  if (body_left_) *body_left_ -= bytes.size();
  auto written = co_await stream_->write(bytes);
  if (!written) abort();
  co_return written;
}

Task<Result<void>> Http2Exchange::finish(std::string_view last) {
  CO_TRY_VOID(co_await write(last));
  if (body_left_.value_or(0) > 0) {
    abort();
    co_return make_error(ErrorCode::kInvalid, "finish answer", "the body has another length");
  }
  reply_ = Reply::kFinished;
  if (sends_body_) stream_->end(std::move(trailers_to_send_));
  co_return {};
}

void Http2Exchange::abort() {
  reply_ = Reply::kAborted;
  stream_->reset(NGHTTP2_INTERNAL_ERROR);
}

Task<Result<std::unique_ptr<WebSocket>>> Http2Exchange::accept_websocket(WebSocketLimits,
                                                                         std::string) {
  constexpr const char* kProblem = "WebSockets are spoken over HTTP/1.1 only";
  respond(error_response(501, "unsupported", kProblem));
  co_return make_error(ErrorCode::kUnsupported, "accept WebSocket", kProblem);
}

}  // namespace pons::http
