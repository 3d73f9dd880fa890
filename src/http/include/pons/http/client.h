#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/exchange.h"
#include "pons/http/tls.h"
#include "pons/http/transport.h"
#include "pons/linux/loop.h"

namespace pons::http {

// How a client gets a connection to the one origin it speaks to.
using Connector = std::function<Task<Result<std::unique_ptr<Transport>>>(TimePoint deadline)>;

Connector unix_connector(linux::Loop& loop, std::string path);
// Numeric addresses only: names are resolved by whoever holds the right to.
Connector tcp_connector(linux::Loop& loop, std::string address, std::uint16_t port);
Connector tls_connector(linux::Loop& loop, std::string address, std::uint16_t port,
                        std::string host, std::shared_ptr<TlsContext> context);

// Gives the next piece of a request body, empty at its end; the view lives until the next call.
using BodySource = std::function<Task<Result<std::string_view>>()>;

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";
  OwnedFields fields;
  std::string body;  // used when there is no source
  BodySource body_source;
  std::optional<std::uint64_t> body_bytes = std::nullopt;  // of the source; unknown: sent in chunks
  // Asked at the source's end for fields behind the body. Not where HTTP/1.1 sends a known length.
  std::function<OwnedFields()> trailers = nullptr;
};

struct ClientLimits {
  HeadLimits head{.bytes = 64 * 1024};
  Duration connect_time = std::chrono::seconds(5);
  Duration first_byte_time = std::chrono::seconds(60);
  Duration idle_time = std::chrono::seconds(60);    // between two pieces of an answer
  Duration write_stall = std::chrono::seconds(30);  // a server that takes nothing
  std::size_t idle_connections = 8;
  Duration idle_connection_time = std::chrono::seconds(30);
};

class ClientConnection;
class Client;

// An answer whose body is still to be read. Dropping it before the end closes its connection.
class ClientResponse {
 public:
  ClientResponse(Client& client, std::unique_ptr<ClientConnection> connection);
  ClientResponse(ClientResponse&&) noexcept;
  ClientResponse& operator=(ClientResponse&&) noexcept;
  ~ClientResponse();

  int status() const;
  std::optional<std::string_view> find(std::string_view field) const;
  const ResponseHead& head() const;

  // The next piece, empty at the end; valid until the next call. A body cut short is an error,
  // never an end.
  Task<Result<std::string_view>> read_body();
  // The same without waiting: empty when nothing is here yet.
  Result<std::string_view> take_ready_body();
  Task<Result<std::string>> read_whole_body(std::size_t bytes_max);

 private:
  Client* client_;
  std::unique_ptr<ClientConnection> connection_;
};

// Speaks to one origin over kept-alive connections. Must outlive its responses.
class Client {
 public:
  Client(linux::Loop& loop, Connector connector, std::string host, ClientLimits limits = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The answer's head. A request is sent again by itself only when a kept-alive connection turned
  // out to be closed before one byte of an answer, and only if it is GET or HEAD.
  Task<Result<ClientResponse>> send(ClientRequest request);

  Task<Result<std::unique_ptr<WebSocket>>> open_websocket(std::string target,
                                                          OwnedFields fields = {},
                                                          WebSocketLimits limits = {});

 private:
  friend class ClientResponse;
  struct Idle {
    std::unique_ptr<ClientConnection> connection;
    TimePoint until;
  };
  std::unique_ptr<ClientConnection> take_idle();
  void give_back(std::unique_ptr<ClientConnection> connection);
  Task<Result<std::unique_ptr<ClientConnection>>> connect();

  linux::Loop& loop_;
  Connector connector_;
  std::string host_;
  ClientLimits limits_;
  std::vector<Idle> idle_;
};

}  // namespace pons::http
