#pragma once

#include <cstdint>
#include <string>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

namespace pons::linux {

// A non-blocking listening socket on a numeric IPv4 or IPv6 address; "::" takes no IPv4
// connections. Port 0 lets the kernel choose. The error for a port in use names who has it.
Result<UniqueFd> listen_tcp(const std::string& address, std::uint16_t port, int backlog = 1024);

// "nginx (pid 4242)" for whoever listens on this TCP port in our network namespace. Empty when
// nobody does, or when the process belongs to someone whose descriptors we may not see.
std::string find_listener_owner(std::uint16_t port);

}  // namespace pons::linux
