#include <sys/socket.h>

#include <algorithm>

#include "pons/egress/resolver.h"
#include "pons/linux/fd.h"

namespace pons::egress {
namespace {

// Whether the kernel knows a way there; nothing is sent.
bool has_route(const IpAddress& address, std::uint16_t port) {
  sockaddr_storage storage;
  const socklen_t size = address.fill_socket(storage, port);
  const linux::UniqueFd socket(::socket(storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return socket && connect(socket.get(), reinterpret_cast<const sockaddr*>(&storage), size) == 0;
}

// The families take turns, so that a broken one costs one attempt.
std::vector<IpAddress> alternate(const std::vector<IpAddress>& v6,
                                 const std::vector<IpAddress>& v4) {
  std::vector<IpAddress> order;
  for (std::size_t i = 0; i < std::max(v6.size(), v4.size()); ++i) {
    if (i < v6.size()) order.push_back(v6[i]);
    if (i < v4.size()) order.push_back(v4[i]);
  }
  return order;
}

}  // namespace

AddressChoice pick_addresses(const ResolvedHost& host, const Policy& policy,
                             const Destination& destination, std::uint16_t port) {
  AddressChoice choice{.decision = {.reason = Reason::kAddressNotAllowed}};
  std::vector<IpAddress> v6;
  std::vector<IpAddress> v4;
  for (const IpAddress& address : host.addresses) {
    choice.decision = policy.judge_address(destination, port, address);
    if (!choice.decision.allowed()) {
      choice.refused = address;
      return choice;
    }
    (address.is_v4() ? v4 : v6).push_back(address);
  }
  if (!v4.empty() && !v6.empty() && !has_route(v6.front(), port)) v6.clear();
  choice.to_try = alternate(v6, v4);
  return choice;
}

}  // namespace pons::egress
