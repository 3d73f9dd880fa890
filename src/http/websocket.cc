#include "pons/http/websocket.h"

#include <algorithm>

namespace pons::http {

namespace {
// Frames that may wait behind one being written: pongs and closes, or several senders.
constexpr std::size_t kOutputWaitingBytesMax = 1024 * 1024;
}  // namespace

WebSocket::WebSocket(std::unique_ptr<Transport> transport, WebSocketRole role,
                     WebSocketLimits limits, std::string leftover)
    : transport_(std::move(transport)),
      role_(role),
      decoder_(role, limits),
      input_(std::move(leftover)) {}

Task<Result<std::optional<WebSocketMessage>>> WebSocket::receive(TimePoint deadline) {
  using Outcome = std::optional<WebSocketMessage>;
  if (close_code_ != 0) co_return Outcome();
  for (;;) {
    const auto step = decoder_.next(std::string_view(input_).substr(input_begin_));
    input_begin_ += step.consumed;
    if (step.state == WebSocketDecoder::Step::State::kRefused)
      co_return co_await refuse(step.close_code, step.reason);
    if (step.state == WebSocketDecoder::Step::State::kNeedMore) {
      input_.erase(0, std::exchange(input_begin_, 0));
      constexpr std::size_t kPieceBytes = 16 * 1024;
      const std::size_t kept = input_.size();
      input_.resize(kept + kPieceBytes);
      auto got = co_await read_some(*transport_, std::span(input_).subspan(kept), deadline);
      input_.resize(kept + (got ? *got : 0));
      if (!got) co_return std::move(got).error();
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
        if (!close_sent_) {
          close_sent_ = true;
          // The peer may be gone already: its close was what mattered.
          (void)co_await send_frame(WebSocketEventKind::kClose, {}, step.event.close_code);
        }
        transport_->shut_down_writing();
        co_return Outcome();
      }
    }
  }
}

Task<Result<std::optional<WebSocketMessage>>> WebSocket::refuse(std::uint16_t code,
                                                                const char* reason) {
  close_code_ = code;
  if (!close_sent_) {
    close_sent_ = true;
    (void)co_await send_frame(WebSocketEventKind::kClose, reason, code);
  }
  transport_->shut_down_writing();
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
  if (close_sent_ && kind != WebSocketEventKind::kClose)
    co_return make_error(ErrorCode::kUnavailable, "send WebSocket message",
                         "the socket is closing");
  if (writing_ && output_.size() > kOutputWaitingBytesMax)
    co_return make_error(ErrorCode::kLimit, "send WebSocket message",
                         "too much is waiting already; wait for the earlier send");
  append_websocket_frame(output_, role_, kind, payload, code);
  if (writing_) co_return {};  // the coroutine that is writing takes this frame along
  writing_ = true;
  Result<void> sent;
  while (sent && !output_.empty()) {
    const std::string frames = std::exchange(output_, {});
    iovec span = to_iovec(frames);
    sent = co_await write_all(*transport_, {&span, 1}, write_stall_);
  }
  writing_ = false;
  co_return sent;
}

}  // namespace pons::http
