#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/client_hello.h"
#include "pons/linux/loop.h"
#include "pons/names/ip_address.h"

namespace pons::egress {

// Where a connection wanted to go before the rules of its namespace turned it around. The proxy's
// own port when it was not turned around.
struct OriginalDestination {
  names::IpAddress address;
  std::uint16_t port = 0;
};
Result<OriginalDestination> original_destination(int socket);

// What a client says first, looked at and left in the socket.
struct PlainHttp {};
struct PlainHttp2 {};  // "prior knowledge"
struct UnknownProtocol {};
using Greeting = std::variant<http::ClientHello, PlainHttp, PlainHttp2, UnknownProtocol>;

// kTimeout when the client says nothing that can be told apart before the deadline.
Task<Result<Greeting>> sniff(linux::Watch& watch, int socket, TimePoint deadline);

}  // namespace pons::egress
