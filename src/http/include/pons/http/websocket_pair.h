#pragma once

#include <optional>

#include "pons/base/clock.h"
#include "pons/http/websocket.h"
#include "pons/linux/loop.h"

// For those who carry messages between two WebSockets.

namespace pons::http {

// How long neither side has sent a message: then both are given up. Pings do not count.
struct Silence {
  linux::Loop& loop;
  Duration longest;
  TimePoint since;
};

// The next message; nothing when there will be none, or both have been silent for too long.
Task<std::optional<WebSocketMessage>> next_message(WebSocket& from, Silence& silence);
Task<Result<void>> pass_on(const WebSocketMessage& message, WebSocket& to);

}  // namespace pons::http
