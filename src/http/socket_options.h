#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace pons::http {

// For TCP; Unix sockets refuse all of it and need none of it. Answers are written whole, so Nagle
// would only delay them. A peer that vanished without a word is noticed within two minutes, even by
// a handler that waits for nothing else.
inline void set_tcp_options(int socket) {
  const auto set = [socket](int level, int option, int value) {
    setsockopt(socket, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace pons::http
