#include "pons/http/websocket.h"

#include <algorithm>

namespace pons::http {

namespace {
// Pongs and closes that may wait behind a frame being written. A peer that pings and does not read
// is not worth more.
constexpr std::size_t kOutputWaitingBytesMax = 64 * 1024;
constexpr std::size_t kPieceBytes = 16 * 1024;

bool is_control(WebSocketEventKind kind) {
  return kind != WebSocketEventKind::kText && kind != WebSocketEventKind::kBinary;
}
}  // namespace

WebSocket::WebSocket(std::unique_ptr<Transport> transport, WebSocketRole role,
                     WebSocketLimits limits, std::string leftover)
    : transport_(std::move(transport)),
      role_(role),
      decoder_(role, limits),
      input_(std::move(leftover)),
      input_end_(input_.size()),
      turn_(transport_->watch().loop()) {}

Task<Result<std::optional<WebSocketMessage>>> WebSocket::receive(TimePoint deadline) {
  using Outcome = std::optional<WebSocketMessage>;
  if (peer_closed_) co_return Outcome();
  for (;;) {
    const auto step =
        decoder_.next(std::string_view(input_).substr(input_begin_, input_end_ - input_begin_));
    input_begin_ += step.consumed;
    if (step.state == WebSocketDecoder::Step::State::kRefused)
      co_return co_await refuse(step.close_code, step.reason);
    if (step.state == WebSocketDecoder::Step::State::kNeedMore) {
      input_begin_ = input_end_ = 0;
      input_.resize(kPieceBytes);
      auto got = co_await read_some(*transport_, input_, deadline);
      if (!got) co_return std::move(got).error();
      input_end_ = *got;
      if (*got == 0)
        co_return make_error(ErrorCode::kUnavailable, "receive WebSocket message",
                             "the connection ended without a closing handshake");
      continue;
    }
    switch (step.event.kind) {
      case WebSocketEventKind::kText:
        co_return Outcome({WebSocketMessage::Kind::kText, std::string(step.event.payload)});
      case WebSocketEventKind::kBinary:
        co_return Outcome({WebSocketMessage::Kind::kBinary, std::string(step.event.payload)});
      case WebSocketEventKind::kPing:
        CO_TRY_VOID(
            co_await send_frame(WebSocketEventKind::kPong, std::string(step.event.payload)));
        break;
      case WebSocketEventKind::kPong:
        break;
      case WebSocketEventKind::kClose: {
        constexpr std::uint16_t kNoCodeGiven = 1005;
        close_code_ = step.event.close_code != 0 ? step.event.close_code : kNoCodeGiven;
        peer_closed_ = true;
        if (!close_sent_) {
          close_sent_ = true;
          // The peer may be gone already: its close was what mattered.
          (void)co_await send_frame(WebSocketEventKind::kClose, {}, step.event.close_code);
        }
        co_await finish_writing();
        transport_->shut_down_writing();
        co_return Outcome();
      }
    }
  }
}

Task<Result<std::optional<WebSocketMessage>>> WebSocket::refuse(std::uint16_t code,
                                                                const char* reason) {
  close_code_ = code;
  has_refused_peer_ = true;
  if (!close_sent_) {
    close_sent_ = true;
    (void)co_await send_frame(WebSocketEventKind::kClose, reason, code);
  }
  co_await finish_writing();
  input_.resize(kPieceBytes);
  co_await close_gently(*transport_, input_);
  co_return make_error(ErrorCode::kInvalid, "receive WebSocket message", reason);
}

Task<Result<void>> WebSocket::send_text(std::string_view text) {
  return send_frame(WebSocketEventKind::kText, std::string(text));
}

Task<Result<void>> WebSocket::send_binary(std::string_view bytes) {
  return send_frame(WebSocketEventKind::kBinary, std::string(bytes));
}

Task<Result<void>> WebSocket::ping(std::string_view payload) {
  return send_frame(WebSocketEventKind::kPing, std::string(payload));
}

Task<Result<void>> WebSocket::close(std::uint16_t code, std::string_view reason) {
  if (close_sent_) co_return {};
  close_sent_ = true;
  co_return co_await send_frame(WebSocketEventKind::kClose, std::string(reason), code);
}

Task<Result<void>> WebSocket::send_frame(WebSocketEventKind kind, std::string payload,
                                         std::uint16_t code) {
  // Control frames go along with the frame being written: receive() must not wait for a sender, or
  // two peers that both send would wait for each other.
  while (writing_ && !is_control(kind)) co_await turn_.wait(kNever);
  const bool broken = broken_ && !writing_;
  if (broken || (close_sent_ && kind != WebSocketEventKind::kClose))
    co_return make_error(ErrorCode::kUnavailable, "send WebSocket message",
                         "the socket is closing");
  if (writing_ && output_.size() > kOutputWaitingBytesMax)
    co_return make_error(ErrorCode::kLimit, "send WebSocket message",
                         "the peer asks for answers that it does not read");
  append_websocket_frame(output_, role_, kind, payload, code);
  if (writing_) co_return {};
  const Turn turn(*this);
  while (!output_.empty()) {
    const std::string frames = std::exchange(output_, {});
    iovec span = to_iovec(frames);
    CO_TRY_VOID(co_await write_all(*transport_, {&span, 1}, write_stall_));
  }
  broken_ = false;
  co_return {};
}

// Lets a sender's frame get out, and the close that goes along with it.
Task<> WebSocket::finish_writing() {
  if (writing_) co_await turn_.wait(transport_->watch().loop().now() + write_stall_);
}

// A frame that is not written to its end, because of an error or because its sender was cancelled,
// leaves the peer inside it: nothing can follow.
WebSocket::Turn::Turn(WebSocket& owner) : socket(owner) {
  socket.writing_ = socket.broken_ = true;
  socket.turn_.reset();
}

WebSocket::Turn::~Turn() {
  socket.writing_ = false;
  socket.turn_.set();
}

}  // namespace pons::http
