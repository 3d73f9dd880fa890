#include "client_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::http {

namespace {

constexpr std::size_t kBodyBytes = 16 * 1024;
constexpr int kInterimAnswersMax = 20;

bool is_visible(unsigned char c) {
  return c > ' ' && c != 0x7F;
}

bool is_about_framing(std::string_view name) {
  return equal_ignoring_case(name, "Content-Length") ||
         equal_ignoring_case(name, "Transfer-Encoding") || equal_ignoring_case(name, "Host");
}

Result<std::string> make_head(const ClientRequest& request, const std::string& host) {
  const auto illegal = [](std::string_view what) {
    return make_error(ErrorCode::kInvalid, "send request",
                      fmt::format("the {} is not legal in HTTP", what));
  };
  if (!is_token(request.method)) return illegal("method");
  if (request.target.empty() || !std::ranges::all_of(request.target, is_visible))
    return illegal("target");
  if (!is_field_value(host)) return illegal("host");
  std::string head = fmt::format("{} {} HTTP/1.1\r\n", request.method, request.target);
  bool has_host = false;
  for (const auto& [name, value] : request.fields) {
    if (!is_token(name) || !is_field_value(value)) return illegal("header field " + name);
    if (equal_ignoring_case(name, "Content-Length") ||
        equal_ignoring_case(name, "Transfer-Encoding"))
      return make_error(ErrorCode::kInvalid, "send request", name + " is set by the body alone");
    has_host |= equal_ignoring_case(name, "Host");
    append_field(head, name, value);
  }
  if (!has_host) append_field(head, "Host", host);
  if (request.body_source && request.body_bytes) {
    append_field(head, "Content-Length", fmt::format("{}", *request.body_bytes));
  } else if (request.body_source) {
    append_field(head, "Transfer-Encoding", "chunked");
  } else if (!request.body.empty() || (request.method != "GET" && request.method != "HEAD")) {
    append_field(head, "Content-Length", fmt::format("{}", request.body.size()));
  }
  head += "\r\n";
  return head;
}

}  // namespace

ClientConnection::ClientConnection(linux::Loop& loop, std::unique_ptr<Transport> transport,
                                   const ClientLimits& limits)
    : loop_(loop), transport_(std::move(transport)), limits_(limits) {}

bool ClientConnection::is_still_quiet() {
  if (transport_->watch().hung_up()) return false;
  char byte;
  // TLS takes a large buffer before it finds the socket empty; mostly the socket can say so itself.
  if (!transport_->has_buffered_input() &&
      recv(transport_->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
    return true;
  return transport_->try_read({&byte, 1}).state == IoOutcome::State::kWantRead;
}

Task<Result<void>> ClientConnection::send(const ClientRequest& request, const std::string& host) {
  broken_ = true;  // until the answer has been read to its end
  answer_begun_ = false;
  request_sent_ = false;
  CO_TRY(const std::string head, make_head(request, host));
  iovec spans[] = {to_iovec(head), to_iovec(request.body)};
  CO_TRY_VOID(co_await write_all(*transport_, std::span(spans).first(request.body_source ? 1 : 2),
                                 limits_.write_stall));
  if (request.body_source) CO_TRY_VOID(co_await send_body(request));
  request_sent_ = true;
  co_return {};
}

Task<Result<void>> ClientConnection::converse(ClientRequest request, std::string host) {
  conversation_ = std::make_unique<Conversation>(loop_);
  Conversation& both = *conversation_;
  both.request = std::move(request);
  both.tasks.spawn(send_beside(std::move(host)));
  both.tasks.spawn(read_head_beside(both.request.method));
  for (TimePoint deadline = kNever;;) {
    if (both.answered) co_return *both.answered;
    // A server that has closed its ear may have answered before.
    if (is_hopeless()) co_return *both.sent;
    // However long the body takes: the server's time begins at its end.
    if (both.sent && deadline == kNever) deadline = loop_.now() + limits_.first_byte_time;
    both.news.reset();
    if (co_await both.news.wait(deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "read answer", "the server does not answer");
  }
}

bool ClientConnection::is_hopeless() const {
  const Conversation& both = *conversation_;
  if (!both.sent || *both.sent) return false;
  const ErrorCode code = both.sent->error().code;
  // Who listens may be silent for as long as the answer goes on.
  if (both.answered && code == ErrorCode::kTimeout) return false;
  return source_failed_ || code != ErrorCode::kUnavailable;
}

Task<> ClientConnection::send_beside(std::string host) {
  Conversation& both = *conversation_;
  both.sent = co_await send(both.request, host);
  // Whoever reads the answer learns that the request has failed.
  if (is_hopeless() && both.answered) shutdown(transport_->fd(), SHUT_RDWR);
  both.news.set();
}

Task<> ClientConnection::read_head_beside(std::string method) {
  Conversation& both = *conversation_;
  both.answered = co_await read_head(std::move(method), kNever);
  both.news.set();
}

Task<Result<void>> ClientConnection::send_body(const ClientRequest& request) {
  const std::optional<std::uint64_t> bytes = request.body_bytes;
  for (std::uint64_t sent = 0;;) {
    const auto next = co_await request.body_source();
    source_failed_ = !next;
    if (!next) co_return next.error();
    const std::string_view piece = *next;
    sent += piece.size();
    if (bytes && (sent > *bytes || (piece.empty() && sent < *bytes)))
      co_return make_error(ErrorCode::kInvalid, "send request", "the body has another length");
    if (piece.empty()) break;
    char prefix[20];
    iovec spans[] = {to_iovec({prefix, chunk_prefix(prefix, piece.size())}), to_iovec(piece),
                     to_iovec(kChunkSuffix)};
    const std::span<iovec> framed = bytes ? std::span(spans).subspan(1, 1) : std::span(spans);
    CO_TRY_VOID(co_await write_all(*transport_, framed, limits_.write_stall));
  }
  if (bytes) co_return {};
  co_return co_await send_end(request);
}

// The last chunk, and the fields behind it.
Task<Result<void>> ClientConnection::send_end(const ClientRequest& request) {
  std::string end = "0\r\n";
  const OwnedFields trailers = request.trailers ? request.trailers() : OwnedFields();
  for (const auto& [name, value] : trailers) {
    if (!is_token(name) || !is_field_value(value) || is_about_framing(name))
      co_return make_error(ErrorCode::kInvalid, "send request", "a trailer is not legal in HTTP");
    append_field(end, name, value);
  }
  end += "\r\n";
  iovec last = to_iovec(end);
  co_return co_await write_all(*transport_, {&last, 1}, limits_.write_stall);
}

Task<Result<std::size_t>> ClientConnection::fill(TimePoint deadline) {
  return read_into(*transport_, input_, limits_.head.bytes + kBodyBytes, deadline);
}

Task<Result<void>> ClientConnection::read_head(std::string method, TimePoint deadline) {
  input_.consume(input_.unread().size());
  // The connection was quiet before the request, so that an answer raises an event of its own.
  if (!transport_->has_buffered_input()) co_await transport_->watch().readable(deadline);
  std::size_t scanned = 0;
  int interim = 0;
  for (;;) {
    const HeadParse parsed =
        parse_response_head(input_.unread(), scanned, limits_.head, method, head_);
    if (parsed.state == HeadParse::State::kRefused)
      co_return make_error(ErrorCode::kInvalid, "read answer", parsed.reason);
    if (parsed.state == HeadParse::State::kDone) {
      constexpr int kSwitchingProtocols = 101;
      const bool is_final = head_.status >= 200 || head_.status == kSwitchingProtocols;
      if (is_final) kept_head_.keep(input_.unread().substr(0, parsed.head_bytes), head_);
      input_.consume(parsed.head_bytes);
      if (is_final) break;
      if (++interim > kInterimAnswersMax)
        co_return make_error(ErrorCode::kInvalid, "read answer", "too many interim answers");
      scanned = 0;  // the real one follows
      continue;
    }
    CO_TRY(const std::size_t got, co_await fill(deadline));
    if (got == 0)
      co_return make_error(ErrorCode::kUnavailable, "read answer",
                           "the server closed the connection");
    answer_begun_ = true;
    deadline = loop_.now() + limits_.idle_time;
  }
  body_left_ = head_.content_length;
  body_done_ = head_.framing == BodyFraming::kNone ||
               (head_.framing == BodyFraming::kLength && body_left_ == 0);
  chunks_.reset();
  broken_ = !body_done_;
  co_return {};
}

Result<std::string_view> ClientConnection::take_ready_body() {
  std::string_view piece;
  if (body_done_) return piece;
  if (head_.framing == BodyFraming::kChunked) {
    const ChunkedDecoder::Step step = chunks_.next(input_.unread());
    input_.consume(step.consumed);
    if (step.state == ChunkedDecoder::Step::State::kRefused)
      return make_error(ErrorCode::kInvalid, "read answer's body", step.reason);
    body_done_ = step.state == ChunkedDecoder::Step::State::kEnd;
    piece = step.payload;
  } else {
    piece = input_.unread();
    if (head_.framing == BodyFraming::kLength) {
      piece = piece.substr(0, std::min<std::uint64_t>(body_left_, piece.size()));
      body_left_ -= piece.size();
      body_done_ = body_left_ == 0;
    }
    input_.consume(piece.size());
  }
  if (body_done_) broken_ = false;
  return piece;
}

Task<Result<std::string_view>> ClientConnection::read_body() {
  while (!body_done_) {
    CO_TRY(const std::string_view piece, take_ready_body());
    if (!piece.empty()) co_return piece;
    if (body_done_) break;
    CO_TRY(const std::size_t got, co_await fill(loop_.now() + limits_.idle_time));
    if (got > 0) continue;
    // The error of the failed write was the only one the kernel reports: what looks like an end
    // may be a reset.
    const bool write_failed =
        conversation_ ? conversation_->sent && !*conversation_->sent : !request_sent_;
    if (head_.framing != BodyFraming::kUntilClose || write_failed)
      co_return make_error(ErrorCode::kUnavailable, "read answer's body",
                           "the server closed in the middle of it");
    body_done_ = true;  // broken_ stays: the connection is over
  }
  input_.rest();
  co_return std::string_view();
}

}  // namespace pons::http
