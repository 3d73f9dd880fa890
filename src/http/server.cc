#include "pons/http/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <ctime>

#include "http1_connection.h"
#include "pons/base/log.h"

namespace pons::http {

namespace {

std::string numeric_address(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  }
  return text;
}

bool is_readable(int fd) {
  pollfd state{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&state, 1, 0) == 1;
}

}  // namespace

Server::Server(linux::Loop& loop, ServerLimits limits, Handler handler)
    : loop_(loop),
      limits_(limits),
      handler_(std::move(handler)),
      room_(loop),
      listeners_(loop),
      connections_(loop) {}

Server::~Server() = default;

Result<void> Server::listen(linux::UniqueFd listener, std::string role,
                            std::shared_ptr<TlsContext> tls) {
  TRY_VOID(linux::set_nonblocking(listener.get()));
  auto watch = TRY(linux::Watch::create(loop_, listener.get()));
  if (tls != nullptr) {
    replace_tls(role, std::move(tls));
  } else if (tls_.contains(role)) {
    return make_error(ErrorCode::kConflict, "listen", role + " is greeted with TLS already");
  }
  listeners_.spawn(accept_from(std::move(listener), std::move(watch), std::move(role)));
  return {};
}

void Server::replace_tls(const std::string& role, std::shared_ptr<TlsContext> tls) {
  tls_[role] = std::move(tls);
}

Task<> Server::accept_from(linux::UniqueFd listener, linux::Watch watch, std::string role) {
  for (;;) {
    if (connections_.size() >= limits_.connections) {
      // Nobody is evicted for a client that does not exist.
      if (!is_readable(listener.get())) {
        co_await watch.readable(kNever);
        continue;
      }
      co_await wait_for_room();
    }
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    linux::UniqueFd socket(accept4(listener.get(), reinterpret_cast<sockaddr*>(&address), &size,
                                   SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      const auto tls = tls_.find(role);
      connections_.spawn(greet(std::move(socket), {role, numeric_address(address)},
                               tls == tls_.end() ? nullptr : tls->second));
    } else if (errno == EAGAIN) {
      co_await watch.readable(kNever);
    } else if (errno != ECONNABORTED && errno != EINTR) {
      LOG_WARN("cannot accept connections", {"error", os_error("accept")});
      co_await loop_.sleep_for(std::chrono::milliseconds(100));
    }
  }
}

Task<> Server::wait_for_room() {
  while (connections_.size() >= limits_.connections) {
    room_.reset();
    const TimePoint look_again = make_room();
    co_await room_.wait(look_again);
  }
}

// A handshake is slow when it takes longer than any honest client far away: such clients must not
// push out those that wait between two requests. Returns when another one will have become slow.
TimePoint Server::make_room() {
  static constexpr Duration kSlowGreeting = std::chrono::seconds(2);
  const auto slow_from = [](const Greeting& greeting) { return greeting.begun + kSlowGreeting; };
  if (!greetings_.empty() && slow_from(greetings_.front()) <= loop_.now()) {
    shutdown(greetings_.front().fd, SHUT_RDWR);
  } else if (!idle_.empty()) {
    idle_.front()->close_if_idle();
  } else if (!greetings_.empty()) {
    return slow_from(greetings_.front());
  }
  return kNever;
}

Result<void> Server::serve(linux::UniqueFd socket, Peer peer) {
  if (draining_)
    return make_error(ErrorCode::kUnavailable, "serve connection", "the server is draining");
  if (connections_.size() >= limits_.connections)
    return make_error(ErrorCode::kLimit, "serve connection", "too many connections");
  if (served_roles_[peer.role] >= limits_.connections_per_role)
    return make_error(ErrorCode::kLimit, "serve connection",
                      "too many connections from " + peer.role);
  connections_.spawn(
      run_counted(TRY(create_plain_transport(loop_, std::move(socket))), std::move(peer)));
  return {};
}

// One caller that opens connections without end locks out only itself.
Task<> Server::run_counted(std::unique_ptr<Transport> transport, Peer peer) {
  struct Counted {
    std::size_t& count;
    explicit Counted(std::size_t& c) : count(++c) {}
    ~Counted() { --count; }
  } const counted(served_roles_[peer.role]);
  co_await run(std::move(transport), std::move(peer));
}

Task<> Server::greet(linux::UniqueFd socket, Peer peer, std::shared_ptr<TlsContext> tls) {
  Result<std::unique_ptr<Transport>> transport = nullptr;
  if (tls == nullptr) {
    transport = create_plain_transport(loop_, std::move(socket));
  } else {
    struct Noted {
      std::list<Greeting>& all;
      std::list<Greeting>::iterator place;
      ~Noted() { all.erase(place); }
    } const noted{greetings_,
                  greetings_.insert(greetings_.end(), {.fd = socket.get(), .begun = loop_.now()})};
    transport = co_await accept_tls(loop_, std::move(socket), std::move(tls),
                                    loop_.now() + limits_.header_time);
  }
  if (transport) {
    co_await run(std::move(*transport), std::move(peer));
  } else {
    LOG_DEBUG("no connection", {"peer", peer.address}, {"error", transport.error()});
    room_.set();
  }
}

Task<> Server::run(std::unique_ptr<Transport> transport, Peer peer) {
  Http1Connection connection(*this, std::move(transport), std::move(peer));
  co_await connection.run();
}

Task<> Server::drain(TimePoint deadline) {
  draining_ = true;
  listeners_.cancel_all();
  for (Http1Connection* connection : idle_) connection->close_if_idle();
  co_await connections_.wait_until_empty(deadline);
  connections_.cancel_all();
}

// "Date: …\r\n", made once a second.
std::string_view Server::date_field() {
  if (loop_.now() >= date_until_) {
    date_until_ = loop_.now() + std::chrono::seconds(1);
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[64];
    date_.assign(text,
                 std::strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts));
  }
  return date_;
}

}  // namespace pons::http
