#include "pons/http/websocket_pair.h"

namespace pons::http {

Task<std::optional<WebSocketMessage>> next_message(WebSocket& from, Silence& silence) {
  for (;;) {
    auto message = co_await from.receive(silence.since + silence.longest);
    const bool is_late = !message && message.error().code == ErrorCode::kTimeout;
    // The other side may have spoken meanwhile.
    if (is_late && silence.loop.now() < silence.since + silence.longest) continue;
    if (!message) co_return std::nullopt;
    silence.since = silence.loop.now();
    co_return std::move(*message);
  }
}

Task<Result<void>> pass_on(const WebSocketMessage& message, WebSocket& to) {
  return message.kind == WebSocketMessage::Kind::kText ? to.send_text(message.payload)
                                                       : to.send_binary(message.payload);
}

}  // namespace pons::http
