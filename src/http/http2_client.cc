#include <fmt/format.h>

#include "http2_session.h"
#include "pons/http/http2.h"

namespace pons::http {

// One request and its answer. The request's body is moved by a task of its own, so that an answer
// is heard at any time.
class Http2Call {
 public:
  Http2Call(linux::Loop& loop, std::shared_ptr<Http2Stream> stream, ClientRequest request,
            const Http2Limits& limits)
      : loop_(loop),
        stream_(std::move(stream)),
        request_(std::move(request)),
        limits_(limits),
        sender_(loop) {}

  ~Http2Call() {
    sender_.cancel_all();
    if (!stream_->has_whole_input() || !stream_->has_sent_all()) stream_->reset(NGHTTP2_CANCEL);
    stream_->abandon();
  }

  void start_sending() {
    if (request_.body_source) {
      sender_.spawn(send_body());
    } else if (!request_.body.empty()) {
      stream_->write_whole(std::move(request_.body));
      stream_->end();
    }
  }

  Task<Result<void>> read_head() {
    while (!stream_->head_done) {
      if (stream_->is_closed()) co_return stream_->why_closed("read answer");
      if (const auto error = stream_->local_error()) co_return *error;
      stream_->came.reset();
      const auto waited = co_await stream_->came.wait(first_byte_deadline());
      if (waited == linux::Wait::kTimeout && first_byte_deadline() <= loop_.now())
        co_return make_error(ErrorCode::kTimeout, "read answer", "no answer before the deadline");
    }
    const auto refusal = settle_http2_response(stream_->head_block(), request_.method,
                                               stream_->has_only_head(), head_);
    if (refusal) co_return make_error(ErrorCode::kInvalid, "read answer", refusal.reason);
    co_return {};
  }

  Task<Result<std::string_view>> read_body() { return stream_->read(limits_.body_idle_time); }
  const ResponseHead& head() const { return head_; }
  const OwnedFields& trailers() const { return stream_->trailers(); }

 private:
  // An upload may take its time as long as it moves.
  TimePoint first_byte_deadline() const { return stream_->last_sent() + limits_.first_byte_time; }

  Task<> send_body() {
    for (std::uint64_t sent = 0;;) {
      const auto piece = co_await request_.body_source();
      if (!piece) co_return stream_->fail(piece.error());
      sent += piece->size();
      const auto& length = request_.body_bytes;
      if (length && (sent > *length || (piece->empty() && sent < *length)))
        co_return stream_->fail(
            make_error(ErrorCode::kInvalid, "send request", "the body has another length"));
      if (piece->empty()) break;
      const auto written = co_await stream_->write(*piece);
      if (!written && !stream_->is_closed()) stream_->fail(written.error());
      if (!written) co_return;
    }
    OwnedFields trailers = request_.trailers ? request_.trailers() : OwnedFields();
    if (!are_trailers_legal(trailers))
      co_return stream_->fail(
          make_error(ErrorCode::kInvalid, "send request", "a trailer is not legal in HTTP/2"));
    stream_->end(std::move(trailers));
  }

  linux::Loop& loop_;
  const std::shared_ptr<Http2Stream> stream_;
  ClientRequest request_;
  const Http2Limits limits_;
  ResponseHead head_;  // points into the stream's block
  linux::TaskGroup sender_;
};

Http2Response::Http2Response(std::unique_ptr<Http2Call> call) : call_(std::move(call)) {}
Http2Response::Http2Response(Http2Response&&) noexcept = default;
Http2Response& Http2Response::operator=(Http2Response&&) noexcept = default;
Http2Response::~Http2Response() = default;

const ResponseHead& Http2Response::head() const {
  return call_->head();
}
Task<Result<std::string_view>> Http2Response::read_body() {
  return call_->read_body();
}
const OwnedFields& Http2Response::trailers() const {
  return call_->trailers();
}

Http2Client::Http2Client(linux::Loop& loop, std::unique_ptr<Transport> transport, std::string host,
                         std::string scheme, Http2Limits limits)
    : loop_(loop),
      host_(std::move(host)),
      scheme_(std::move(scheme)),
      limits_(limits),
      session_(
          std::make_unique<Http2Session>(loop, std::move(transport), Http2Side::kClient, limits)),
      tasks_(loop) {
  tasks_.spawn(session_->run());
}

Http2Client::~Http2Client() = default;

bool Http2Client::is_usable() const {
  return session_->takes_requests();
}

Task<Result<Http2Response>> Http2Client::send(ClientRequest request) {
  FieldsToSend head;
  std::string length;
  CO_TRY_VOID(list_request_fields(request, host_, scheme_, length, head));
  auto stream = session_->open(head, request.body_source || !request.body.empty());
  if (stream == nullptr)
    co_return make_error(ErrorCode::kUnavailable, "send request",
                         "not processed: the connection takes no more requests");
  auto call = std::make_unique<Http2Call>(loop_, std::move(stream), std::move(request), limits_);
  call->start_sending();
  CO_TRY_VOID(co_await call->read_head());
  co_return Http2Response(std::move(call));
}

}  // namespace pons::http
