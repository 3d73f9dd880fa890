#include "pons/http/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include "client_connection.h"
#include "pons/base/text.h"
#include "pons/linux/unix_socket.h"

namespace pons::http {

namespace {

constexpr int kSwitchingProtocols = 101;

bool is_gone(const Error& error) {
  return error.code == ErrorCode::kUnavailable;
}

Error switched_unasked() {
  return make_error(ErrorCode::kInvalid, "read answer",
                    "the server switched protocols without being asked to");
}

Result<std::pair<sockaddr_storage, socklen_t>> numeric_endpoint(const std::string& address,
                                                                std::uint16_t port) {
  sockaddr_storage storage{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    return std::pair(storage, socklen_t{sizeof v4});
  }
  if (inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    return std::pair(storage, socklen_t{sizeof v6});
  }
  return make_error(ErrorCode::kInvalid, "connect", "not a numeric address: " + address);
}

Task<Result<linux::UniqueFd>> connect_tcp(linux::Loop& loop, std::string address,
                                          std::uint16_t port, TimePoint deadline) {
  const auto describe = [&] { return fmt::format("{} port {}", address, port); };
  CO_TRY(const auto endpoint, numeric_endpoint(address, port));
  linux::UniqueFd socket(
      ::socket(endpoint.first.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) co_return os_error("create socket");
  CO_TRY(auto watch, linux::Watch::create(loop, socket.get()));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&endpoint.first), endpoint.second) ==
      0)
    co_return socket;
  if (errno != EINPROGRESS) co_return os_error("connect", describe());
  for (;;) {
    if (co_await watch.writable(deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "connect", describe());
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) co_return os_error("connect", describe(), error);
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof peer;
    if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0)
      co_return socket;
  }
}

Task<Result<std::unique_ptr<Transport>>> connect_plain(linux::Loop& loop, std::string address,
                                                       std::uint16_t port, TimePoint deadline) {
  CO_TRY(auto socket, co_await connect_tcp(loop, std::move(address), port, deadline));
  co_return create_plain_transport(loop, std::move(socket));
}

Task<Result<std::unique_ptr<Transport>>> connect_secure(linux::Loop& loop, std::string address,
                                                        std::uint16_t port, std::string host,
                                                        std::shared_ptr<TlsContext> context,
                                                        TimePoint deadline) {
  CO_TRY(auto socket, co_await connect_tcp(loop, std::move(address), port, deadline));
  co_return co_await connect_tls(loop, std::move(socket), std::move(context), std::move(host),
                                 deadline);
}

Task<Result<std::unique_ptr<Transport>>> connect_unix_path(linux::Loop& loop, std::string path) {
  CO_TRY(auto socket, linux::connect_unix(path));  // a Unix socket connects at once or not at all
  co_return create_plain_transport(loop, std::move(socket));
}

}  // namespace

Connector unix_connector(linux::Loop& loop, std::string path) {
  return [&loop, path](TimePoint) { return connect_unix_path(loop, path); };
}

Connector tcp_connector(linux::Loop& loop, std::string address, std::uint16_t port) {
  return [&loop, address, port](TimePoint deadline) {
    return connect_plain(loop, address, port, deadline);
  };
}

Connector tls_connector(linux::Loop& loop, std::string address, std::uint16_t port,
                        std::string host, std::shared_ptr<TlsContext> context) {
  return [&loop, address, port, host, context](TimePoint deadline) {
    return connect_secure(loop, address, port, host, context, deadline);
  };
}

// ---- answers

ClientResponse::ClientResponse(Client& client, std::unique_ptr<ClientConnection> connection)
    : client_(&client), connection_(std::move(connection)) {}
ClientResponse::ClientResponse(ClientResponse&&) noexcept = default;

ClientResponse& ClientResponse::operator=(ClientResponse&& other) noexcept {
  ClientResponse incoming(std::move(other));
  std::swap(client_, incoming.client_);
  std::swap(connection_, incoming.connection_);
  return *this;
}

ClientResponse::~ClientResponse() {
  if (connection_ != nullptr && connection_->reusable()) client_->give_back(std::move(connection_));
}

int ClientResponse::status() const {
  return connection_->head().status;
}
const ResponseHead& ClientResponse::head() const {
  return connection_->head();
}
std::optional<std::string_view> ClientResponse::find(std::string_view field) const {
  return connection_->head().find(field);
}

Task<Result<std::string_view>> ClientResponse::read_body() {
  return connection_->read_body();
}

Result<std::string_view> ClientResponse::take_ready_body() {
  return connection_->take_ready_body();
}

Task<Result<std::string>> ClientResponse::read_whole_body(std::size_t bytes_max) {
  std::string body;
  for (;;) {
    CO_TRY(const std::string_view piece, co_await connection_->read_body());
    if (piece.empty()) co_return body;
    if (piece.size() > bytes_max - body.size())
      co_return make_error(ErrorCode::kLimit, "read answer's body",
                           fmt::format("it is larger than {} bytes", bytes_max));
    body += piece;
  }
}

// ---- the client

Client::Client(linux::Loop& loop, Connector connector, std::string host, ClientLimits limits)
    : loop_(loop), connector_(std::move(connector)), host_(std::move(host)), limits_(limits) {}

Client::~Client() = default;

std::unique_ptr<ClientConnection> Client::take_idle() {
  while (!idle_.empty()) {
    Idle last = std::move(idle_.back());
    idle_.pop_back();
    if (last.until > loop_.now() && last.connection->is_still_quiet())
      return std::move(last.connection);
  }
  return nullptr;
}

void Client::give_back(std::unique_ptr<ClientConnection> connection) {
  if (idle_.size() >= limits_.idle_connections) return;
  connection->be_kept();
  idle_.push_back({std::move(connection), loop_.now() + limits_.idle_connection_time});
}

Task<Result<std::unique_ptr<ClientConnection>>> Client::connect() {
  CO_TRY(auto transport, co_await connector_(loop_.now() + limits_.connect_time));
  co_return std::make_unique<ClientConnection>(loop_, std::move(transport), limits_);
}

Task<Result<ClientResponse>> Client::send(ClientRequest request) {
  const bool repeatable =
      (request.method == "GET" || request.method == "HEAD") && !request.body_source;
  const bool is_conversation = request.body_source && !request.body_bytes;
  std::unique_ptr<ClientConnection> connection = take_idle();
  for (;;) {
    if (connection == nullptr) {
      CO_TRY(connection, co_await connect());
    }
    if (is_conversation) {
      CO_TRY_VOID(co_await connection->converse(std::move(request), host_));
      if (connection->head().status == kSwitchingProtocols) co_return switched_unasked();
      co_return ClientResponse(*this, std::move(connection));
    }
    Result<void> done = co_await connection->send(request, host_);
    if (done || is_gone(done.error())) {
      // A server that refuses a body may answer and close before it has taken it.
      auto answered = co_await connection->read_head(request.method);
      if (answered || done) done = std::move(answered);
    }
    if (done && connection->head().status == kSwitchingProtocols) co_return switched_unasked();
    if (done) co_return ClientResponse(*this, std::move(connection));
    const bool stale = connection->reused() && !connection->answer_begun() && is_gone(done.error());
    if (!stale || !repeatable) co_return std::move(done).error();
    connection = nullptr;  // the server closed it while it was idle; a new one may not say so again
  }
}

Task<Result<std::unique_ptr<WebSocket>>> Client::open_websocket(std::string target,
                                                                OwnedFields fields,
                                                                WebSocketLimits limits) {
  const std::string key = make_websocket_key();
  ClientRequest request{.target = std::move(target), .fields = std::move(fields)};
  request.fields.insert(request.fields.end(), {{"Upgrade", "websocket"},
                                               {"Connection", "Upgrade"},
                                               {"Sec-WebSocket-Version", "13"},
                                               {"Sec-WebSocket-Key", key}});
  CO_TRY(auto connection, co_await connect());
  CO_TRY_VOID(co_await connection->send(request, host_));
  CO_TRY_VOID(co_await connection->read_head(request.method));
  const ResponseHead& head = connection->head();
  if (head.status != kSwitchingProtocols || !head.upgrade ||
      head.find("Sec-WebSocket-Extensions") ||
      head.find("Sec-WebSocket-Accept") != websocket_accept_key(key) ||
      !equal_ignoring_case(head.find("Upgrade").value_or(""), "websocket"))
    co_return make_error(
        ErrorCode::kInvalid, "open WebSocket",
        fmt::format("the server answered {} and not with a proper upgrade", head.status));
  std::string leftover = connection->take_leftover();
  std::string subprotocol(head.find("Sec-WebSocket-Protocol").value_or(""));
  auto socket = std::make_unique<WebSocket>(connection->release_transport(), WebSocketRole::kClient,
                                            limits, std::move(leftover));
  socket->set_subprotocol(std::move(subprotocol));
  co_return std::move(socket);
}

}  // namespace pons::http
