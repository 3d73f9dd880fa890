#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

namespace pons::linux {

// A socket to the kernel's networking. It belongs for ever to the network namespace it was opened
// in. Keep it open: opening and closing one for each nftables change costs more than ten
// milliseconds.
class NetlinkSocket {
 public:
  static Result<NetlinkSocket> open(int protocol);  // NETLINK_ROUTE, NETLINK_NETFILTER
  static Result<NetlinkSocket> open_in(int net_namespace_fd, int protocol);

  // Reserves `count` message numbers and returns the first.
  std::uint32_t take_sequence(std::uint32_t count);
  // Sends one or more messages and waits, with a deadline, for the answer to the one numbered
  // `last`. The first refusal among first..last is the error. Every message that can be refused
  // carries NLM_F_ACK.
  Result<void> transact(std::span<const std::byte> messages, std::uint32_t first,
                        std::uint32_t last, const char* step);

 private:
  explicit NetlinkSocket(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  std::uint32_t next_sequence_ = 1;
};

// Both take a NETLINK_ROUTE socket.
Result<void> bring_loopback_up(NetlinkSocket& socket);
// Every address of the family (AF_INET, AF_INET6) is this namespace's own: a connection to anywhere
// arrives here instead of failing for want of a route. Needs loopback to be up.
Result<void> add_local_default_route(NetlinkSocket& socket, int family);

}  // namespace pons::linux
