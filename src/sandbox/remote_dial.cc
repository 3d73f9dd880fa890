#include "remote_dial.h"

#include <poll.h>

#include <array>

#include "pons/linux/loop.h"

namespace pons::sandbox {

namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;
constexpr Duration kStallMax = std::chrono::hours(1);
constexpr Duration kHangUpLook = std::chrono::milliseconds(200);
constexpr std::uint16_t kNormalClosure = 1000;

bool is_gone(int socket) {
  pollfd poll_fd{.fd = socket, .events = 0, .revents = 0};
  return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & (POLLHUP | POLLERR)) != 0;
}

// Returns when nobody holds the other end any more, or the WebSocket failed.
Task<> send_from(linux::Loop& loop, http::WebSocket& socket, http::Transport& local) {
  std::string piece(kPieceBytes, '\0');
  for (;;) {
    const auto got = co_await http::read_some(local, piece, kNever);
    if (!got) co_return;
    if (!co_await socket.send_binary(std::string_view(piece).substr(0, *got))) co_return;
    if (*got == 0) break;
  }
  // The other end may be half closed, and still be read from: only poll tells the two apart.
  while (!is_gone(local.fd())) co_await loop.sleep_for(kHangUpLook);
}

// Returns when the far side closed or nobody takes its bytes any more.
Task<> receive_into(http::WebSocket& socket, http::Transport& local) {
  for (;;) {
    const auto message = co_await socket.receive(kNever);
    if (!message || !*message) co_return;
    if ((*message)->payload.empty()) {
      local.shut_down_writing();
      continue;
    }
    iovec bytes = http::to_iovec((*message)->payload);
    if (!co_await http::write_all(local, {&bytes, 1}, kStallMax)) co_return;
  }
}

Task<> tell_the_end(Task<> work, linux::Event& ended) {
  co_await std::move(work);
  ended.set();
}

}  // namespace

Task<> carry(linux::Loop& loop, std::unique_ptr<http::WebSocket> socket,
             std::unique_ptr<http::Transport> local) {
  linux::Event ended(loop);
  {
    linux::TaskGroup directions(loop);
    directions.spawn(tell_the_end(send_from(loop, *socket, *local), ended));
    directions.spawn(tell_the_end(receive_into(*socket, *local), ended));
    co_await ended.wait(kNever);
  }
  (void)co_await socket->close(kNormalClosure, {});
}

}  // namespace pons::sandbox
