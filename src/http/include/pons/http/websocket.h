#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/transport.h"
#include "pons/http/websocket_frame.h"

namespace pons::http {

struct WebSocketMessage {
  enum class Kind : std::uint8_t { kText, kBinary } kind;
  std::string payload;
};

// An open WebSocket, either side. Pings are answered while receive() waits. One coroutine may
// receive while others send: their messages go out whole, one after the other, and each send
// returns when the kernel has taken its message.
class WebSocket {
 public:
  // `leftover`: bytes that came in together with the handshake.
  WebSocket(std::unique_ptr<Transport> transport, WebSocketRole role, WebSocketLimits limits,
            std::string leftover);

  // The next message; nothing when the peer closed properly (close_code() tells why). An error is
  // final, but for kTimeout: the peer was told a close code where that was possible. May be
  // cancelled and called again without losing a message.
  Task<Result<std::optional<WebSocketMessage>>> receive(TimePoint deadline);
  Task<Result<void>> send_text(std::string_view text);
  Task<Result<void>> send_binary(std::string_view bytes);
  Task<Result<void>> ping(std::string_view payload = {});
  // Starts the closing handshake; receive() then returns nothing once the peer agrees.
  Task<Result<void>> close(std::uint16_t code, std::string_view reason);

  std::uint16_t close_code() const { return close_code_; }
  // The peer sent what is no frame, or too much; receive() may still be telling it so.
  bool has_refused_peer() const { return has_refused_peer_; }
  // What a client's side and its server agreed on; empty when nothing.
  const std::string& subprotocol() const { return subprotocol_; }
  void set_subprotocol(std::string name) { subprotocol_ = std::move(name); }

 private:
  // The right to write, for as long as it lives.
  struct Turn {
    explicit Turn(WebSocket& owner);
    Turn(const Turn&) = delete;
    ~Turn();
    WebSocket& socket;
  };

  Task<Result<void>> send_frame(WebSocketEventKind kind, std::string payload,
                                std::uint16_t code = 0);
  Task<> finish_writing();
  Task<Result<std::optional<WebSocketMessage>>> refuse(std::uint16_t code, const char* reason);

  std::unique_ptr<Transport> transport_;
  WebSocketRole role_;
  WebSocketDecoder decoder_;
  std::string input_;
  std::size_t input_begin_ = 0;  // what is to be decoded is [begin, end)
  std::size_t input_end_;
  std::string output_;  // whole frames that wait for the one being written
  linux::Event turn_;   // nobody writes
  bool writing_ = false;
  bool broken_ = false;  // while writing: until all of it is out
  bool close_sent_ = false;
  bool peer_closed_ = false;
  bool has_refused_peer_ = false;
  std::uint16_t close_code_ = 0;
  std::string subprotocol_;
  Duration write_stall_ = std::chrono::seconds(30);
};

}  // namespace pons::http
