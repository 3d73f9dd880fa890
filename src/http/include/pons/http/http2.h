#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/client.h"
#include "pons/http/exchange.h"
#include "pons/http/server.h"
#include "pons/http/transport.h"
#include "pons/linux/loop.h"

// HTTP/2 (RFC 9113) over one given transport: never a pool, never an upgrade from HTTP/1.1, no
// pushes, no priorities, no CONNECT.
namespace pons::http {

struct Http2Limits {
  HeadLimits head{.bytes = 64 * 1024};          // names, values and 32 bytes for each field
  std::uint64_t body_bytes = 32 * 1024 * 1024;  // of one request that is served
  std::size_t streams = 100;                    // that a server runs handlers for at a time
  // Body bytes that the peer may send before they are taken. The connection's bound holds for all
  // its streams together.
  std::size_t stream_window = 64 * 1024;
  std::size_t connection_window = 1024 * 1024;
  std::size_t queue_bytes = 64 * 1024;              // written, but not yet sent, of one stream
  Duration header_time = std::chrono::seconds(10);  // of one block of fields, and of the greeting
  Duration idle_time = std::chrono::seconds(60);    // a client without an open stream
  Duration body_idle_time = std::chrono::seconds(30);    // between two pieces of a body
  Duration duplex_idle_time = std::chrono::minutes(10);  // the same once the answer has begun
  Duration write_stall = std::chrono::seconds(30);       // a peer that takes nothing
  Duration first_byte_time = std::chrono::seconds(60);  // from the request's last byte to an answer
  Duration leave_time = std::chrono::seconds(2);  // for a handler whose client has left, to end
  // A server that owes an answer and has been silent for so long is asked for a sign of life; one
  // that gives none has vanished, and the connection is over.
  Duration silence_time = std::chrono::seconds(20);
  Duration sign_of_life_time = std::chrono::seconds(10);
  // Frames that cost work and move nothing (resets, refused requests, settings, empty data): so
  // many at once, and so many each second after that.
  std::size_t nuisance_burst = 500;
  std::size_t nuisance_per_second = 50;

  // With windows for a distant server.
  static Http2Limits for_client();
  // What a peer can make one connection hold, give or take the bookkeeping.
  std::size_t memory_bytes_max() const;
};

// Serves one connection until it is over or the task is cancelled. Each request runs the handler
// with an Exchange of its own; field names are in lower case. A request that two readers could
// understand differently never reaches the handler: its stream is reset, or answered with 400.
// `scheme` is what requests must name: "https", or "http" on a plain transport. A handler whose
// client has left is cancelled after limits.leave_time. `refuser` is asked once for each such
// request, and when the connection ends because it breaks the rules; where only a reset can follow,
// its answer is not sent.
Task<> serve_http2(linux::Loop& loop, std::unique_ptr<Transport> transport, Peer peer,
                   Http2Limits limits, Handler handler, std::string scheme = "https",
                   Refuser refuser = {});

class Http2Session;
class Http2Call;

// An answer whose body is still to be read, while the request's body may still be on its way.
// Dropping it before the end resets the stream. May outlive its client.
class Http2Response {
 public:
  explicit Http2Response(std::unique_ptr<Http2Call> call);
  Http2Response(Http2Response&&) noexcept;
  Http2Response& operator=(Http2Response&&) noexcept;
  ~Http2Response();

  int status() const { return head().status; }
  const ResponseHead& head() const;  // kChunked stands for a body of unknown length
  // The next piece, empty at the end; valid until the next call. A body cut short is an error.
  Task<Result<std::string_view>> read_body();
  const OwnedFields& trailers() const;  // after the body's end

 private:
  std::unique_ptr<Http2Call> call_;
};

// Sends requests, many at a time, to one origin over one transport.
class Http2Client {
 public:
  Http2Client(linux::Loop& loop, std::unique_ptr<Transport> transport, std::string host,
              std::string scheme = "https", Http2Limits limits = Http2Limits::for_client());
  ~Http2Client();
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  // The answer's head, which may come before the request's body has ended. `host` of the client
  // becomes :authority; a Host field must equal it. kUnavailable with "not processed" in the
  // message: the server has not touched the request.
  Task<Result<Http2Response>> send(ClientRequest request);
  // False when the connection is over or the server takes no more requests: connect again.
  bool is_usable() const;

 private:
  linux::Loop& loop_;
  std::string host_;
  std::string scheme_;
  Http2Limits limits_;
  std::unique_ptr<Http2Session> session_;
  linux::TaskGroup tasks_;  // last: it uses the session
};

}  // namespace pons::http
