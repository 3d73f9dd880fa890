#include <algorithm>

#include "http2_exchange.h"
#include "pons/base/log.h"
#include "pons/http/http2.h"

namespace pons::http {

namespace {

// The streams of one client's connection.
class Http2Connection {
 public:
  Http2Connection(linux::Loop& loop, std::unique_ptr<Transport> transport, Peer peer,
                  const Http2Limits& limits, Handler handler, std::string scheme, Refuser refuser)
      : loop_(loop),
        peer_(std::move(peer)),
        limits_(limits),
        handler_(std::move(handler)),
        scheme_(std::move(scheme)),
        refuser_(std::move(refuser)),
        session_(loop, std::move(transport), Http2Side::kServer, limits),
        streams_(loop) {
    // A client that resets its streams does not get more of them than one that waits.
    session_.serve(
        [this] { return streams_.size() < limits_.streams; },
        [this](std::shared_ptr<Http2Stream> stream) { streams_.spawn(serve(std::move(stream))); },
        [this] { (void)refuse({400, "the request breaks the rules of HTTP/2"}); });
  }

  Task<> run() {
    co_await session_.run();
    co_await streams_.wait_until_empty(loop_.now() + limits_.leave_time);
  }

 private:
  // From the end of a request's head to the end of its answer.
  Task<> serve(std::shared_ptr<Http2Stream> stream) {
    Http2Exchange exchange(loop_, session_, stream, peer_, limits_);
    if (const Refusal refusal = exchange.settle(scheme_)) {
      exchange.respond(refuse(refusal));
    } else {
      co_await handle(exchange, *stream);
      exchange.complete();
    }
    const auto drained = co_await stream->drain();
    if (!drained) {
      stream->reset(NGHTTP2_CANCEL);
    } else if (!stream->has_whole_input()) {
      stream->reset(NGHTTP2_NO_ERROR);  // the answer is complete without the rest of the request
    }
    stream->abandon();
  }

  Response refuse(const Refusal& refusal) const {
    return refuser_ ? refuser_(refusal.status, refusal.reason)
                    : error_response(refusal.status, "invalid_request", refusal.reason);
  }

  Task<> handle(Http2Exchange& exchange, Http2Stream& stream) {
    linux::TaskGroup handler(loop_);
    bool is_done = false;
    handler.spawn(call_handler(exchange, stream, is_done));
    if (is_done) co_return;
    co_await stream.over.wait(kNever);  // the handler's waits have deadlines
    if (!is_done) co_await handler.wait_until_empty(loop_.now() + limits_.leave_time);
  }

  Task<> call_handler(Http2Exchange& exchange, Http2Stream& stream, bool& is_done) {
    try {
      co_await handler_(exchange);
    } catch (const std::exception& exception) {
      LOG_ERROR("a handler failed", {"path", exchange.request().path()},
                {"what", exception.what()});
    } catch (...) {
      LOG_ERROR("a handler failed", {"path", exchange.request().path()},
                {"what", "not a std::exception"});
    }
    is_done = true;
    stream.over.set();
  }

  linux::Loop& loop_;
  const Peer peer_;
  const Http2Limits limits_;
  const Handler handler_;
  const std::string scheme_;
  const Refuser refuser_;
  Http2Session session_;
  linux::TaskGroup streams_;  // last: its tasks use all of the above
};

}  // namespace

Http2Limits Http2Limits::for_client() {
  Http2Limits limits;
  limits.stream_window = 1024 * 1024;
  limits.connection_window = 8 * 1024 * 1024;
  limits.body_idle_time = std::chrono::seconds(60);
  return limits;
}

std::size_t Http2Limits::memory_bytes_max() const {
  constexpr std::size_t kBuffers = 256 * 1024;  // of the session, nghttp2 and both HPACK tables
  return connection_window + streams * (stream_window + queue_bytes + 2 * head.bytes) + kBuffers;
}

Task<> serve_http2(linux::Loop& loop, std::unique_ptr<Transport> transport, Peer peer,
                   Http2Limits limits, Handler handler, std::string scheme, Refuser refuser) {
  Http2Connection connection(loop, std::move(transport), std::move(peer), limits,
                             std::move(handler), std::move(scheme), std::move(refuser));
  co_await connection.run();
}

}  // namespace pons::http
