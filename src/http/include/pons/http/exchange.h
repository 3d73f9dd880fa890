#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/event_stream.h"
#include "pons/http/head.h"
#include "pons/http/websocket.h"
#include "pons/linux/fd.h"

namespace pons::http {

using OwnedFields = std::vector<std::pair<std::string, std::string>>;

// A complete answer. Field names and values must be legal (is_token, is_field_value).
struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  OwnedFields fields;
  // With start() only: the length of the whole body, when it is known beforehand. The writes must
  // add up to it. For an answer to HEAD it is what GET would have sent.
  std::optional<std::uint64_t> content_length = std::nullopt;
};

// {"error":{"type":…,"message":…}} with the status.
Response error_response(int status, std::string_view type, std::string_view message);

// Who is on the other end, as far as the socket itself proves it.
struct Peer {
  std::string role;     // "public", "admin", or the role that dialled
  std::string address;  // numeric, public connections only
  // What a role sent along with its connection; a handler takes it out.
  std::shared_ptr<std::vector<linux::UniqueFd>> descriptors;
};

// One request and its answer, whatever the protocol version underneath. Handlers get it by
// reference and may use it until they return. A handler answers exactly once: respond(), or start()
// … finish(), or accept_websocket(). One that returns without an answer gets a 500 sent for it; one
// that returns between start() and finish() leaves its answer cut off.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const RequestHead& request() const = 0;
  virtual const Peer& peer() const = 0;
  virtual linux::Loop& loop() = 0;

  // What the request is counted as: static text that says what it asks for, and not for whom.
  virtual void set_route(std::string_view) {}

  // The next piece of the body, empty at its end; valid until the next call. Refuses bodies past
  // the server's limit and bodies that stall. The first call sends "100 Continue" to a client that
  // waits for it.
  virtual Task<Result<std::string_view>> read_body() = 0;
  // The rest of the body in one string of at most `bytes_max`.
  Task<Result<std::string>> read_whole_body(std::size_t bytes_max);
  // Fields behind the body, after its end.
  virtual const OwnedFields& trailers() const;

  // Hands over the whole answer; it is sent after the handler returns.
  virtual void respond(Response response) = 0;

  // An answer of unknown length. Each write returns when the kernel has taken the bytes, so a slow
  // client slows the handler down and nothing piles up in between. The head's body and `last` are
  // pieces that leave in one go with the head and with the end.
  virtual Task<Result<void>> start(Response head) = 0;
  virtual Task<Result<void>> write(std::string_view bytes) = 0;
  virtual Task<Result<void>> finish(std::string_view last = {}) = 0;
  // Fields behind the body, to be set before finish(). HTTP/1.1 leaves them out.
  virtual void set_trailers(OwnedFields) {}
  // Leaves the answer visibly cut off: for a source that failed after the answer began.
  virtual void abort() = 0;

  // A text/event-stream answer: start_events(), send_event() …, finish().
  Task<Result<void>> start_events();
  Task<Result<void>> send_event(ServerEvent event);

  // True when the client left, false at the deadline. For handlers that wait for something else
  // meanwhile.
  virtual Task<bool> wait_for_hang_up(TimePoint deadline) = 0;

  // Answers 101 and hands over the connection, or explains to the client (426, 400) and returns the
  // error.
  // `subprotocol`: one of those that the client offers, or empty.
  virtual Task<Result<std::unique_ptr<WebSocket>>> accept_websocket(
      WebSocketLimits limits = {}, std::string subprotocol = {}) = 0;
};

}  // namespace pons::http
