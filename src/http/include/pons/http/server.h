#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>

#include "pons/base/clock.h"
#include "pons/http/exchange.h"
#include "pons/http/server_counts.h"
#include "pons/http/tls.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"

namespace pons::http {

class Http1Connection;

struct ServerLimits {
  HeadLimits head;
  std::uint64_t body_bytes = 32 * 1024 * 1024;
  std::size_t connections = 1024;
  std::size_t connections_per_role = 1024;  // of those that serve() takes
  Duration header_time =
      std::chrono::seconds(10);  // from a request's first byte to the end of its head
  Duration idle_time = std::chrono::seconds(60);       // between requests
  Duration body_idle_time = std::chrono::seconds(30);  // between two pieces of a body
  // Where some requests have another; empty: none.
  std::function<Duration(const RequestHead&)> body_idle_time_of{};
  Duration write_stall = std::chrono::seconds(30);  // a client that takes nothing
};

// Answers one exchange. May throw only what libraries throw; that becomes a 500.
using Handler = std::function<Task<>(Exchange&)>;

// The answer to what is no request, or arrives too slowly to become one; the connection ends with
// it.
using Refuser = std::function<Response(int status, std::string_view reason)>;

// Serves connections on one loop. At the connection limit, the connection that has been idle
// longest makes room, after TLS handshakes that take too long; when there is neither, new ones wait
// in the listener's backlog.
class Server {
 public:
  Server(linux::Loop& loop, ServerLimits limits, Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Before the first connection; without one, refusals are error_response()s.
  void set_refuser(Refuser refuser) { refuser_ = std::move(refuser); }
  // Accepts from a listening socket, TCP or Unix. `tls` null: plain.
  Result<void> listen(linux::UniqueFd listener, std::string role,
                      std::shared_ptr<TlsContext> tls = nullptr);
  // From now on the listeners of that role greet with this. Connections keep what they began with.
  void replace_tls(const std::string& role, std::shared_ptr<TlsContext> tls);
  // Serves one connected socket that came in by another way.
  Result<void> serve(linux::UniqueFd socket, Peer peer);
  // The same for a transport, until the connection is over or the task is cancelled.
  Task<> serve_here(std::unique_ptr<Transport> transport, Peer peer) {
    return run(std::move(transport), std::move(peer));
  }

  // No new connections, idle ones closed, running exchanges finish; what still runs at the deadline
  // is cancelled.
  Task<> drain(TimePoint deadline);

  std::size_t connection_count() const { return connections_.size(); }
  const ServerCounts& counts() const { return counts_; }

 private:
  friend class Http1Connection;
  Task<> accept_from(linux::UniqueFd listener, linux::Watch watch, std::string role);
  Task<> greet(linux::UniqueFd socket, Peer peer, std::shared_ptr<TlsContext> tls);
  Task<> run(std::unique_ptr<Transport> transport, Peer peer);
  Task<> run_counted(std::unique_ptr<Transport> transport, Peer peer);
  Task<> wait_for_room();
  TimePoint make_room();
  std::string_view date_field();

  linux::Loop& loop_;
  ServerLimits limits_;
  Handler handler_;
  Refuser refuser_;
  bool draining_ = false;
  ServerCounts counts_;
  std::map<std::string, std::size_t> served_roles_;         // open connections that serve() took
  std::list<Http1Connection*> idle_;                        // longest first
  std::map<std::string, std::shared_ptr<TlsContext>> tls_;  // of listeners, by role
  struct Greeting {
    int fd;
    TimePoint begun;
  };
  std::list<Greeting> greetings_;  // TLS handshakes under way, longest first
  std::string date_;
  TimePoint date_until_{};
  linux::Event room_;
  linux::TaskGroup listeners_;
  linux::TaskGroup connections_;
};

}  // namespace pons::http
