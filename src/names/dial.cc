#include "pons/names/dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace pons::names {

namespace {

// Whether the kernel knows a way there; nothing is sent.
bool has_route(const IpAddress& address, std::uint16_t port) {
  sockaddr_storage storage;
  const socklen_t size = address.fill_socket(storage, port);
  const linux::UniqueFd socket(::socket(storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return socket && connect(socket.get(), reinterpret_cast<const sockaddr*>(&storage), size) == 0;
}

}  // namespace

std::vector<IpAddress> in_dialling_order(const std::vector<IpAddress>& addresses,
                                         std::uint16_t port) {
  std::vector<IpAddress> v6;
  std::vector<IpAddress> v4;
  for (const IpAddress& address : addresses) (address.is_v4() ? v4 : v6).push_back(address);
  if (!v4.empty() && !v6.empty() && !has_route(v6.front(), port)) v6.clear();
  std::vector<IpAddress> order;
  for (std::size_t i = 0; i < std::max(v6.size(), v4.size()); ++i) {
    if (i < v6.size()) order.push_back(v6[i]);
    if (i < v4.size()) order.push_back(v4[i]);
  }
  return order;
}

Task<Result<linux::UniqueFd>> dial(linux::Loop& loop, IpAddress address, std::uint16_t port,
                                   TimePoint deadline) {
  linux::UniqueFd socket(::socket(address.is_v4() ? AF_INET : AF_INET6,
                                  SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) co_return os_error("dial");
  const auto set = [&](int option, int value) {
    setsockopt(socket.get(), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_NODELAY, 1);
  // By itself the kernel goes on for a quarter of an hour when nobody acknowledges.
  set(TCP_USER_TIMEOUT, 60'000);
  sockaddr_storage storage{};
  const socklen_t size = address.fill_socket(storage, port);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0) {
    if (errno != EINPROGRESS) co_return os_error("dial");
    CO_TRY(auto watch, linux::Watch::create(loop, socket.get()));
    if (co_await watch.writable(deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "dial", "no answer");
    int error = 0;
    socklen_t error_size = sizeof error;
    if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &error_size) != 0 || error != 0)
      co_return os_error("dial", {}, error);
  }
  co_return std::move(socket);
}

}  // namespace pons::names
