#pragma once

#include <memory>

#include "pons/http/transport.h"
#include "pons/http/websocket.h"

namespace pons::sandbox {

// Carries bytes between the two until both directions have ended or one side is gone. The end of
// one direction travels as an empty message.
Task<> carry(linux::Loop& loop, std::unique_ptr<http::WebSocket> socket,
             std::unique_ptr<http::Transport> local);

}  // namespace pons::sandbox
