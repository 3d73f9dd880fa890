#include "http1_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "advance.h"
#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::http {

namespace {

using linux::Wait;

// A connection that never has to wait, because its peer is as fast as we are, lets the others have
// a turn after so many bytes. An exchange counts as some, however small it is.
constexpr std::size_t kTurnBytes = 1024 * 1024;
constexpr std::size_t kExchangeBytes = 4096;

// A body that the handler left unread is read and dropped up to this size; past it the connection
// is closed.
constexpr std::size_t kSkippedBodyBytesMax = 256 * 1024;
constexpr Duration kSkipTime = std::chrono::seconds(2);  // in all, however the bytes drip in

}  // namespace

Http1Connection::Http1Connection(Server& server, std::unique_ptr<Transport> transport, Peer peer)
    : server_(server), transport_(std::move(transport)), peer_(std::move(peer)) {
  ++server_.counts_.connections;
}

Http1Connection::~Http1Connection() {
  if (idle_) server_.idle_.erase(idle_place_);
  if (streams_) --server_.counts_.streams;
  server_.room_.set();
}

// ---- the life of a connection

Task<> Http1Connection::run() {
  for (;;) {
    if (input_.is_empty() && !co_await wait_for_request())
      co_return transport_->shut_down_writing();
    if (!co_await read_head()) break;
    co_await handle();
    count_exchange();
    if (reply_ == Reply::kUpgraded) co_return;
    if (reply_ == Reply::kAborted) co_return cut_off();
    if (!co_await flush()) co_return;
    if (close_after_ || server_.draining_ || !co_await skip_rest_of_body()) break;
    if (is_turn_over(kExchangeBytes)) co_await server_.loop_.next_round();
  }
  input_.consume(input_.unread().size());
  co_await close_gently(*transport_, input_.room(unread_max()));
}

void Http1Connection::count_exchange() {
  server_.counts_.count_request(route_, status_);
  if (std::exchange(streams_, false)) --server_.counts_.streams;
}

// False when the connection is over. Idle connections keep nothing but the socket.
Task<bool> Http1Connection::wait_for_request() {
  const TimePoint deadline = server_.loop_.now() + server_.limits_.idle_time;
  bool may_have_input = !drained_ || transport_->has_buffered_input();
  while (!server_.draining_) {
    if (std::exchange(may_have_input, true)) {
      const IoOutcome outcome = transport_->try_read(input_.room(unread_max()));
      input_.add(outcome.bytes);
      server_.counts_.received_bytes += outcome.bytes;
      drained_ = input_.has_room();
      if (outcome.state == IoOutcome::State::kDone) co_return true;
      if (outcome.state != IoOutcome::State::kWantRead) co_return false;
    }
    input_.rest();
    kept_head_.rest();
    idle_place_ = server_.idle_.insert(server_.idle_.end(), this);
    idle_ = true;
    server_.room_.set();  // by eviction, if someone waits for it
    const Wait outcome = co_await transport_->watch().readable(deadline);
    idle_ = false;
    server_.idle_.erase(idle_place_);
    if (outcome == Wait::kTimeout) co_return false;
  }
  co_return false;
}

void Http1Connection::close_if_idle() {
  if (!idle_) return;
  transport_->shut_down_writing();
  // The waiting coroutine wakes up and reads the end of the stream.
  shutdown(transport_->fd(), SHUT_RD);
}

// The first bytes are there already. False when no exchange follows; whatever there was to answer
// was sent.
Task<bool> Http1Connection::read_head() {
  scanned_ = 0;
  const TimePoint deadline = server_.loop_.now() + server_.limits_.header_time;
  for (;;) {
    const HeadParse parsed =
        parse_request_head(input_.unread(), scanned_, server_.limits_.head, head_);
    if (parsed.state == HeadParse::State::kDone) {
      begin_exchange(parsed.head_bytes);
      co_return true;
    }
    if (parsed.state == HeadParse::State::kRefused) {
      refuse(parsed.status, parsed.reason);
      co_await flush();
      co_return false;
    }
    const auto got = co_await fill(deadline);
    if (!got && got.error().code == ErrorCode::kTimeout) {
      refuse(408, "the request's head did not arrive in time");
      co_await flush();
    }
    if (!got || *got == 0) co_return false;
  }
}

void Http1Connection::begin_exchange(std::size_t head_bytes) {
  kept_head_.keep(input_.unread().substr(0, head_bytes), head_);
  input_.consume(head_bytes);
  input_.rest();
  reply_ = Reply::kNone;
  route_ = {};
  close_after_ = !head_.keep_alive;
  continue_wanted_ = head_.expect_continue;
  body_broken_ = false;
  body_taken_ = 0;
  body_deadline_ = kNever;
  const ServerLimits& limits = server_.limits_;
  body_idle_time_ =
      limits.body_idle_time_of ? limits.body_idle_time_of(head_) : limits.body_idle_time;
  body_left_ = head_.framing == BodyFraming::kLength ? head_.content_length : 0;
  body_done_ = head_.framing == BodyFraming::kNone ||
               (head_.framing == BodyFraming::kLength && body_left_ == 0);
  trailers_.clear();
  trailer_lines_.clear();
  if (head_.framing != BodyFraming::kChunked) return;
  chunks_.reset();
  chunks_.keep_trailers(trailer_lines_);
}

// Afterwards there is an answer, whatever the handler did.
Task<> Http1Connection::handle() {
  try {
    co_await server_.handler_(*this);
  } catch (const std::exception& exception) {
    LOG_ERROR("a handler failed", {"path", head_.path()}, {"what", exception.what()});
  } catch (...) {
    LOG_ERROR("a handler failed", {"path", head_.path()}, {"what", "not a std::exception"});
  }
  if (reply_ == Reply::kStreaming) abort();  // not finished: it must not look complete
  if (reply_ == Reply::kNone)
    respond(error_response(500, "internal", "the server failed to answer; its log says why"));
}

// ---- reading

// At least one more byte into the buffer; 0 at the end of the stream.
Task<Result<std::size_t>> Http1Connection::fill(TimePoint deadline) {
  auto got = co_await read_into(*transport_, input_, unread_max(), deadline);
  if (got) {
    server_.counts_.received_bytes += *got;
    // A short read means the socket is empty; the next bytes will raise an event of their own.
    drained_ = input_.has_room();
    if (is_turn_over(*got)) co_await server_.loop_.next_round();
  }
  co_return got;
}

bool Http1Connection::is_turn_over(std::size_t bytes) {
  turn_bytes_ += bytes;
  if (turn_bytes_ < kTurnBytes) return false;
  turn_bytes_ = 0;
  return true;
}

Task<Result<std::string_view>> Http1Connection::read_body() {
  if (body_broken_)
    co_return make_error(ErrorCode::kInvalid, "read request body", "the body is broken");
  if (head_.framing == BodyFraming::kLength && head_.content_length > server_.limits_.body_bytes)
    co_return refuse_body();
  if (std::exchange(continue_wanted_, false) && !body_done_ && reply_ == Reply::kNone) {
    if (!co_await send_continue())
      co_return make_error(ErrorCode::kUnavailable, "read request body", "the client left");
  }
  while (!body_done_) {
    CO_TRY(const std::string_view piece, take_body_piece());
    if (!piece.empty()) co_return piece;
    if (body_done_) break;
    const auto got = co_await fill(std::min(body_deadline_, server_.loop_.now() + body_idle_time_));
    if (!got || *got == 0) {
      body_broken_ = true;
      if (!got) co_return got.error();
      co_return make_error(ErrorCode::kUnavailable, "read request body",
                           "the client left in the middle of it");
    }
  }
  input_.rest();
  co_return std::string_view();
}

// What the buffer holds of the body; empty when more must be read first, or at the end
// (body_done_).
Result<std::string_view> Http1Connection::take_body_piece() {
  std::string_view piece;
  if (head_.framing == BodyFraming::kLength) {
    piece = input_.unread();
    piece = piece.substr(0, std::min<std::uint64_t>(body_left_, piece.size()));
    input_.consume(piece.size());
    body_left_ -= piece.size();
    body_done_ = body_left_ == 0;
  } else {
    const ChunkedDecoder::Step step = chunks_.next(input_.unread());
    input_.consume(step.consumed);
    if (step.state == ChunkedDecoder::Step::State::kRefused) {
      body_broken_ = true;
      return make_error(ErrorCode::kInvalid, "read request body", step.reason);
    }
    body_done_ = step.state == ChunkedDecoder::Step::State::kEnd;
    if (body_done_) read_trailers();
    piece = step.payload;
  }
  body_taken_ += piece.size();
  if (body_taken_ > server_.limits_.body_bytes) return refuse_body();
  return piece;
}

// The decoder has checked them.
void Http1Connection::read_trailers() {
  for (const std::string_view line : split(trailer_lines_, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view value = line.substr(colon + 1, line.size() - colon - 2);
    trailers_.emplace_back(line.substr(0, colon), trim(value));
  }
}

Error Http1Connection::refuse_body() {
  body_broken_ = true;
  return make_error(ErrorCode::kLimit, "read request body",
                    fmt::format("the body is larger than {} bytes", server_.limits_.body_bytes));
}

// False when the connection cannot be used for another request.
Task<bool> Http1Connection::skip_rest_of_body() {
  if (body_broken_) co_return false;
  if (body_done_) co_return true;
  body_deadline_ = server_.loop_.now() + kSkipTime;
  std::size_t skipped = 0;
  while (!body_done_ && !server_.draining_) {
    const auto piece = co_await read_body();
    if (!piece || (skipped += piece->size()) > kSkippedBodyBytesMax) co_return false;
  }
  co_return body_done_;
}

Task<bool> Http1Connection::wait_for_hang_up(TimePoint deadline) {
  while (!transport_->watch().hung_up()) {
    if (co_await transport_->watch().readable(deadline) == Wait::kTimeout) co_return false;
    drained_ = false;  // that may have been the event of a pipelined request
  }
  co_return true;
}

// ---- writing

void Http1Connection::append_head(const Response& response, std::optional<std::uint64_t> length) {
  // A client that still waits for "100 Continue" may send the body or not: no request can follow.
  const bool body_in_doubt = body_broken_ || (continue_wanted_ && !body_done_);
  if (server_.draining_ || body_in_doubt) close_after_ = true;
  char number[24];
  const auto digits = [&](std::uint64_t value) {
    return std::string_view(number,
                            std::to_chars(number, number + sizeof number, value).ptr - number);
  };
  status_ = response.status;
  output_ += "HTTP/1.1 ";
  output_ += digits(static_cast<std::size_t>(response.status));
  output_ += ' ';
  output_ += reason_phrase(response.status);
  output_ += "\r\n";
  output_ += server_.date_field();
  if (!response.content_type.empty()) append_field(output_, "Content-Type", response.content_type);
  if (length) {
    output_ += "Content-Length: ";
    output_ += digits(*length);
    output_ += "\r\n";
  }
  for (const auto& [name, value] : response.fields) append_field(output_, name, value);
  if (close_after_) {
    output_ += "Connection: close\r\n";
  } else if (head_.minor_version == 0) {
    output_ += "Connection: keep-alive\r\n";
  }
}

void Http1Connection::respond(Response response) {
  CHECK(reply_ == Reply::kNone);
  const bool bodyless = response.status == 204 || response.status == 304;
  append_head(response,
              bodyless ? std::nullopt : std::optional<std::uint64_t>(response.body.size()));
  output_ += "\r\n";
  constexpr std::size_t kCopiedBytesMax = 4096;  // below it one copy is cheaper than a second span
  if (!bodyless && head_.method != "HEAD") {
    if (response.body.size() <= kCopiedBytesMax) {
      output_ += response.body;
    } else {
      output_body_ = std::move(response.body);
    }
  }
  reply_ = Reply::kComplete;
}

void Http1Connection::refuse(int status, std::string_view reason) {
  close_after_ = true;
  head_.clear();
  reply_ = Reply::kNone;  // the last exchange's answer is out
  respond(server_.refuser_ ? server_.refuser_(status, reason)
                           : error_response(status, "invalid_request", reason));
  server_.counts_.count_request("refused", status);
}

// Not by way of `output_`: an answer may begin while this waits for a client that does not read.
Task<bool> Http1Connection::send_continue() {
  iovec line = to_iovec("HTTP/1.1 100 Continue\r\n\r\n");
  sending_continue_ = true;
  const auto written = co_await write_all(*transport_, {&line, 1}, server_.limits_.write_stall);
  sending_continue_ = false;
  co_return written.has_value();
}

// False as well when an interim answer is on its way, or was given up in the middle: nothing can
// be sent behind a part of it.
Task<bool> Http1Connection::flush() {
  if (sending_continue_) co_return false;
  iovec spans[] = {to_iovec(output_), to_iovec(output_body_)};
  server_.counts_.sent_bytes += output_.size() + output_body_.size();
  const auto written = co_await write_all(*transport_, spans, server_.limits_.write_stall);
  output_.clear();
  output_body_.clear();
  co_return written.has_value();
}

// Framed, to leave together with what stands before and behind it.
void Http1Connection::append_piece(std::string_view bytes) {
  if (bytes.empty() || head_.method == "HEAD") return;
  char prefix[20];
  if (chunked_answer_) output_.append(prefix, chunk_prefix(prefix, bytes.size()));
  output_ += bytes;
  if (chunked_answer_) output_ += kChunkSuffix;
}

Task<Result<void>> Http1Connection::start(Response head) {
  CHECK(reply_ == Reply::kNone);
  reply_ = Reply::kStreaming;
  ++server_.counts_.streams;
  streams_ = true;
  const bool has_body = head.status != 204 && head.status != 304;
  chunked_answer_ = has_body && !head.content_length && head_.minor_version != 0;
  // HTTP/1.0 knows no chunks: the end of the connection is the end of the answer.
  if (has_body && !head.content_length && head_.minor_version == 0) close_after_ = true;
  append_head(head, head.status != 204 ? head.content_length : std::nullopt);
  output_ += chunked_answer_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
  append_piece(head.body);
  const bool sent = co_await flush();
  output_ = std::string();  // what follows goes out as it is, perhaps for hours
  if (!sent) {
    abort();
    co_return make_error(ErrorCode::kUnavailable, "start answer", "the client left");
  }
  co_return {};
}

Task<Result<void>> Http1Connection::write(std::string_view bytes) {
  if (reply_ != Reply::kStreaming)
    co_return make_error(ErrorCode::kUnavailable, "write answer", "the answer is over");
  Result<void> written;
  if (!bytes.empty() && head_.method != "HEAD") {
    char prefix[20];
    iovec spans[] = {to_iovec({prefix, chunk_prefix(prefix, bytes.size())}), to_iovec(bytes),
                     to_iovec(kChunkSuffix)};
    server_.counts_.sent_bytes += bytes.size();
    const std::span<iovec> framed =
        chunked_answer_ ? std::span(spans) : std::span(spans).subspan(1, 1);
    written = co_await write_all(*transport_, framed, server_.limits_.write_stall);
    if (!written) abort();
  }
  if (is_turn_over(bytes.size())) co_await server_.loop_.next_round();
  co_return written;
}

Task<Result<void>> Http1Connection::finish(std::string_view last) {
  if (reply_ != Reply::kStreaming)
    co_return make_error(ErrorCode::kUnavailable, "finish answer", "the answer is over");
  append_piece(last);
  if (chunked_answer_ && head_.method != "HEAD") output_ += kLastChunk;
  reply_ = Reply::kFinished;
  co_return {};
}

// The connection ends inside a chunk. HTTP/1.0 has none, and its answers end with the connection:
// only a reset tells the client that something is missing.
void Http1Connection::cut_off() {
  const linger reset{.l_onoff = 1, .l_linger = 0};
  if (head_.minor_version == 0)
    setsockopt(transport_->fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

Task<Result<std::unique_ptr<WebSocket>>> Http1Connection::accept_websocket(
    WebSocketLimits limits, std::string subprotocol) {
  const auto key = head_.find("Sec-WebSocket-Key");
  const auto upgrade = head_.find("Upgrade");
  const char* problem = nullptr;
  if (head_.method != "GET" || head_.minor_version == 0 || !head_.upgrade || !upgrade ||
      !equal_ignoring_case(*upgrade, "websocket")) {
    problem = "this is a WebSocket address: ask for an upgrade";
  } else if (head_.find("Sec-WebSocket-Version") != "13") {
    problem = "only WebSocket version 13 is spoken here";
  }
  if (problem != nullptr) {
    Response response = error_response(426, "upgrade_required", problem);
    response.fields = {{"Upgrade", "websocket"}, {"Sec-WebSocket-Version", "13"}};
    respond(std::move(response));
    co_return make_error(ErrorCode::kInvalid, "accept WebSocket", problem);
  }
  if (!key || !is_websocket_key(*key) || head_.framing != BodyFraming::kNone) {
    respond(error_response(400, "invalid_request", "the WebSocket handshake is malformed"));
    co_return make_error(ErrorCode::kInvalid, "accept WebSocket", "malformed handshake");
  }
  output_ += "HTTP/1.1 101 Switching Protocols\r\n";
  append_field(output_, "Upgrade", "websocket");
  append_field(output_, "Connection", "Upgrade");
  append_field(output_, "Sec-WebSocket-Accept", websocket_accept_key(*key));
  if (!subprotocol.empty()) append_field(output_, "Sec-WebSocket-Protocol", subprotocol);
  output_ += "\r\n";
  reply_ = Reply::kUpgraded;
  status_ = 101;
  if (!co_await flush())
    co_return make_error(ErrorCode::kUnavailable, "accept WebSocket", "the client left");
  co_return std::make_unique<WebSocket>(std::move(transport_), WebSocketRole::kServer, limits,
                                        std::string(input_.unread()));
}

}  // namespace pons::http
