#include "pons/roles/channel.h"

#include <sys/socket.h>

#include "pons/base/log.h"
#include "pons/linux/unix_socket.h"

namespace pons::roles {

namespace {
constexpr std::string_view kDial = "dial";
}

Result<linux::UniqueFd> dial(int channel) {
  linux::SocketPair pair = TRY(linux::create_socket_pair(SOCK_STREAM));
  const int theirs = pair.second.get();
  TRY_VOID(linux::send_message(channel, kDial, {&theirs, 1}));
  return std::move(pair.first);
}

Task<> accept_dialled(linux::Loop& loop, int channel, std::function<void(linux::UniqueFd)> accept) {
  auto watch = linux::Watch::create(loop, channel);
  CHECK(watch.has_value());
  for (;;) {
    auto message = linux::receive_message(channel, kDial.size(), 1);
    if (!message && message.error().code == ErrorCode::kUnavailable)
      co_return;  // the supervisor is gone
    if (!message) {
      LOG_WARN("a malformed connection was dropped", {"error", message.error()});
    } else if (!*message) {
      co_await watch->readable(kNever);
    } else if ((*message)->bytes == kDial && (*message)->descriptors.size() == 1) {
      accept(std::move((*message)->descriptors.front()));
    }
  }
}

}  // namespace pons::roles
