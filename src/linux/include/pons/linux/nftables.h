#pragma once

#include <cstdint>

#include "pons/base/result.h"
#include "pons/linux/netlink.h"

namespace pons::linux {

struct RedirectPorts {
  std::uint16_t tcp;
  std::uint16_t dns;
};

// The packet rules of one network namespace: the one it was opened in. Rules outlive this object
// and end with their namespace.
class Nftables {
 public:
  static Result<Nftables> open();
  static Result<Nftables> open_in(int net_namespace_fd);

  // Every TCP connection that leaves a process of the namespace, except to 127.0.0.0/8 and ::1,
  // arrives at ports.tcp of the loopback address; SO_ORIGINAL_DST tells where it wanted to go.
  // UDP to port 53 of any address, loopback included, arrives at ports.dns. Replaces what was set
  // before in one step: there is no moment without rules.
  Result<void> redirect_outgoing(const RedirectPorts& ports);

 private:
  explicit Nftables(NetlinkSocket socket) : socket_(std::move(socket)) {}
  NetlinkSocket socket_;
};

}  // namespace pons::linux
