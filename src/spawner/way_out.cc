#include "way_out.h"

#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "pons/linux/netlink.h"

namespace pons::spawner {

namespace {

using linux::UniqueFd;

constexpr int kBacklog = 512;

struct Place {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Place any_address(int family, std::uint16_t port) {
  Place place;
  if (family == AF_INET6) {
    auto& address = reinterpret_cast<sockaddr_in6&>(place.storage);
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    place.size = sizeof address;
  } else {
    auto& address = reinterpret_cast<sockaddr_in&>(place.storage);
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    place.size = sizeof address;
  }
  return place;
}

Result<UniqueFd> bind_socket(int family, int type, std::uint16_t port) {
  UniqueFd socket(::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return os_error("open way out");
  const int on = 1;
  const int off = 0;
  if (family == AF_INET6 &&
      setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0)
    return os_error("open way out");
  // Connections that linger must not keep the port from being opened again. On the UDP socket the
  // same word would let a process inside bind over it.
  if (type == SOCK_STREAM &&
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
    return os_error("open way out");
  // Every address is this namespace's own: an answer must say which of them was asked.
  const bool told = type != SOCK_DGRAM ||
                    (setsockopt(socket.get(), IPPROTO_IP, IP_PKTINFO, &on, sizeof on) == 0 &&
                     (family != AF_INET6 || setsockopt(socket.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO,
                                                       &on, sizeof on) == 0));
  if (!told) return os_error("open way out");
  const Place place = any_address(family, port);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&place.storage), place.size) != 0)
    return os_error("open way out");
  return socket;
}

// Hosts may run without IPv6.
int widest_family() {
  return UniqueFd(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)) ? AF_INET6 : AF_INET;
}

}  // namespace

Result<WayOut> open_way_out() {
  const int family = widest_family();
  UniqueFd listener = TRY(bind_socket(family, SOCK_STREAM, kProxyPort));
  if (listen(listener.get(), kBacklog) != 0) return os_error("open way out");
  UniqueFd names = TRY(bind_socket(family, SOCK_DGRAM, kNamesPort));
  // The rules before the routes: there is no moment in which a packet goes past them.
  auto rules = TRY(linux::Nftables::open());
  TRY_VOID(rules.redirect_outgoing({.tcp = kProxyPort, .dns = kNamesPort}));
  auto routes = TRY(linux::NetlinkSocket::open(NETLINK_ROUTE));
  TRY_VOID(linux::add_local_default_route(routes, AF_INET));
  if (family == AF_INET6) TRY_VOID(linux::add_local_default_route(routes, AF_INET6));
  return WayOut{std::move(listener), std::move(names), std::move(rules)};
}

}  // namespace pons::spawner
