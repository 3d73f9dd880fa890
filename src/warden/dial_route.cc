#include <sys/socket.h>

#include <array>

#include "pons/base/text.h"
#include "pons/http/transport.h"
#include "route_words.h"
#include "routes.h"

namespace pons::warden {

namespace {

constexpr Duration kConnectTime = std::chrono::seconds(10);
constexpr Duration kStall = std::chrono::minutes(2);
constexpr std::size_t kPieceBytes = 64 * 1024;

// An empty message is the end of its direction: WebSocket itself knows only the end of both.
Task<> carry_in(http::WebSocket& socket, http::Transport& inside, linux::Event& broken) {
  for (;;) {
    const auto message = co_await socket.receive(kNever);
    if (!message || !*message) break;
    if ((*message)->payload.empty()) {
      inside.shut_down_writing();
      co_return;
    }
    iovec spans[] = {http::to_iovec((*message)->payload)};
    if (!co_await http::write_all(inside, spans, kStall)) break;
  }
  broken.set();
}

Task<> carry_out(http::WebSocket& socket, http::Transport& inside, linux::Event& broken) {
  std::array<char, kPieceBytes> buffer;
  for (;;) {
    const auto size = co_await http::read_some(inside, buffer, kNever);
    if (!size) break;
    if (!co_await socket.send_binary({buffer.data(), *size})) break;
    if (*size == 0) co_return;
  }
  broken.set();
}

Task<> set_when_empty(linux::TaskGroup& group, linux::Event& over) {
  co_await group.wait_until_empty(kNever);
  over.set();
}

Task<> carry(linux::Loop& loop, http::WebSocket& socket, http::Transport& inside) {
  linux::Event over(loop);
  linux::TaskGroup directions(loop);
  linux::TaskGroup end(loop);
  directions.spawn(carry_in(socket, inside, over));
  directions.spawn(carry_out(socket, inside, over));
  end.spawn(set_when_empty(directions, over));
  co_await over.wait(kNever);
}

// A service that answered and closed at once has hung up by now, and was reached.
int connect_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

Task<Result<void>> dial(Provider& provider, http::Exchange& exchange, Words words) {
  const auto port = parse_decimal(words[1]);
  if (!port || *port == 0 || *port > 65'535)
    co_return make_error(ErrorCode::kInvalid, "dial", "a port is a number from 1 to 65535");
  linux::Loop& loop = exchange.loop();
  CO_TRY(auto connection, co_await provider.dial(words[0], static_cast<std::uint16_t>(*port)));
  const auto in_use = provider.hold(words[0]);
  CO_TRY(const auto inside, http::create_plain_transport(loop, std::move(connection)));
  // Nothing is promised to the client before the connection stands.
  if (co_await inside->watch().writable(loop.now() + kConnectTime) == linux::Wait::kTimeout)
    co_return make_error(ErrorCode::kTimeout, "dial", "nobody accepts at this port");
  if (connect_error(inside->fd()) != 0)
    co_return make_error(ErrorCode::kUnavailable, "dial", "nobody listens at this port");
  auto socket = co_await exchange.accept_websocket();
  if (!socket) co_return {};  // the client was told why
  co_await carry(loop, **socket, *inside);
  (void)co_await (*socket)->close(1000, "");
  co_return {};
}

}  // namespace

void append_dial_route(Provider& provider, std::vector<http::Route>& routes) {
  routes.push_back({"GET", "/sandboxes/{id}/dial/{port}", handler_of(provider, dial)});
}

}  // namespace pons::warden
