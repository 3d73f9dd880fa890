#include "pons/linux/notify.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>

#include "pons/base/log.h"
#include "pons/linux/fd.h"

namespace pons::linux {

void notify_supervisor(std::string_view state) {
  const char* value = std::getenv("NOTIFY_SOCKET");
  const std::string_view name = value == nullptr ? "" : value;
  if (name.empty()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if ((name.front() != '/' && name.front() != '@') || name.size() >= sizeof address.sun_path) {
    LOG_WARN("NOTIFY_SOCKET is neither a path nor an abstract name", {"value", name});
    return;
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name.front() == '@') address.sun_path[0] = '\0';  // abstract: the length is part of the name
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());

  const UniqueFd socket_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_fd || sendto(socket_fd.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                           reinterpret_cast<const sockaddr*>(&address), length) < 0)
    LOG_WARN("cannot reach the service manager", {"error", os_error("notify", std::string(name))});
}

}  // namespace pons::linux
