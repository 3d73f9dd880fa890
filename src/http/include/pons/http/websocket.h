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
// receive while another sends.
class WebSocket {
 public:
  // `leftover`: bytes that came in together with the handshake.
  WebSocket(std::unique_ptr<Transport> transport, WebSocketRole role, WebSocketLimits limits,
            std::string leftover);

  // The next message; nothing when the peer closed properly (close_code() tells why). Errors are
  // final: the peer was told a close code where that was possible.
  Task<Result<std::optional<WebSocketMessage>>> receive(TimePoint deadline);
  Task<Result<void>> send_text(std::string_view text);
  Task<Result<void>> send_binary(std::string_view bytes);
  Task<Result<void>> ping(std::string_view payload = {});
  // Starts the closing handshake; receive() then returns nothing once the peer agrees.
  Task<Result<void>> close(std::uint16_t code, std::string_view reason);

  std::uint16_t close_code() const { return close_code_; }

 private:
  Task<Result<void>> send_frame(WebSocketEventKind kind, std::string payload,
                                std::uint16_t code = 0);
  Task<Result<std::optional<WebSocketMessage>>> refuse(std::uint16_t code, const char* reason);

  std::unique_ptr<Transport> transport_;
  WebSocketRole role_;
  WebSocketDecoder decoder_;
  std::string input_;
  std::size_t input_begin_ = 0;
  std::string output_;  // whole frames that wait for the one being written
  bool writing_ = false;
  bool close_sent_ = false;
  std::uint16_t close_code_ = 0;
  Duration write_stall_ = std::chrono::seconds(30);
};

}  // namespace pons::http
