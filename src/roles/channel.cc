#include "pons/roles/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include "pons/base/log.h"

namespace pons::roles {

namespace {
constexpr std::string_view kDial = "dial";
constexpr int kMessagesPerTurn = 64;

// What dial() makes, and nothing else that a caller may own: not a file, not a way to the internet.
bool is_local_stream(int descriptor) {
  const auto option = [&](int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
  };
  return option(SO_DOMAIN) == AF_UNIX && option(SO_TYPE) == SOCK_STREAM;
}

}  // namespace

Result<std::optional<linux::Message>> receive_from_role(int socket, std::size_t bytes_max,
                                                        std::size_t descriptors_max) {
  auto message = linux::receive_message(socket, bytes_max, descriptors_max);
  const bool looks_gone = !message && message.error().code == ErrorCode::kUnavailable;
  if (!looks_gone) return message;
  pollfd peer{.fd = socket, .events = POLLRDHUP, .revents = 0};
  if (poll(&peer, 1, 0) != 0) return message;
  return make_error(ErrorCode::kInvalid, "receive message", "it is empty");
}

Task<> FairTurns::after_message() {
  if (++handled_ % kMessagesPerTurn == 0) co_await loop_.next_round();
}

Result<linux::UniqueFd> dial(int channel, std::span<const int> along) {
  CHECK(along.size() <= kAlongMax);
  linux::SocketPair pair = TRY(linux::create_socket_pair(SOCK_STREAM));
  std::vector<int> theirs = {pair.second.get()};
  theirs.insert(theirs.end(), along.begin(), along.end());
  TRY_VOID(linux::send_message(channel, kDial, theirs));
  return std::move(pair.first);
}

Task<> accept_dialled(linux::Loop& loop, int channel, std::function<void(Dialled)> accept) {
  auto watch = linux::Watch::create(loop, channel);
  CHECK(watch.has_value());
  FairTurns turns(loop);
  for (;;) {
    auto message = receive_from_role(channel, kDial.size(), 1 + kAlongMax);
    if (!message && message.error().code == ErrorCode::kUnavailable)
      co_return;  // the supervisor is gone
    if (message && !*message) {
      co_await watch->readable(kNever);
      continue;
    }
    if (message && (*message)->bytes == kDial && !(*message)->descriptors.empty() &&
        is_local_stream((*message)->descriptors.front().get())) {
      auto& descriptors = (*message)->descriptors;
      Dialled dialled{.socket = std::move(descriptors.front()), .along = {}};
      descriptors.erase(descriptors.begin());
      dialled.along = std::move(descriptors);
      accept(std::move(dialled));
    } else {
      if (message)
        for (auto& descriptor : (*message)->descriptors)
          linux::close_without_waiting(std::move(descriptor));
      LOG_WARN("a malformed connection was dropped",
               {"error", message ? "not a connection" : message.error().describe()});
    }
    co_await turns.after_message();
  }
}

}  // namespace pons::roles
