#include "http2_stream.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "http2_session.h"

namespace pons::http {

Http2Stream::Http2Stream(linux::Loop& loop, Http2Session& session, const Http2Limits& limits)
    : came(loop),
      sent(loop),
      over(loop),
      loop_(loop),
      session_(&session),
      limits_(limits),
      last_sent_(loop.now()) {}

// ---- in

void Http2Stream::take_in(std::string_view bytes) {
  if (abandoned_) return session_->consume(id_, bytes.size());
  input_ += bytes;
  came.set();
}

void Http2Stream::input_ended() {
  input_ended_ = true;
  came.set();
}

void Http2Stream::take_head(bool is_last) {
  head_done = true;
  has_only_head_ = is_last;
  head_ = std::exchange(block, {});
  came.set();
}

void Http2Stream::take_trailers() {
  trailers_ = block.copy();
  block.clear();
}

Task<Result<std::string_view>> Http2Stream::read(Duration idle_max) {
  const TimePoint deadline = loop_.now() + idle_max;
  while (input_.empty()) {
    if (input_ended_) co_return std::string_view();
    if (is_closed() || error_) co_return why_closed("read body");
    came.reset();
    if (co_await came.wait(deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "read body", "nothing came before the deadline");
  }
  std::swap(piece_, input_);
  input_.clear();
  if (session_ != nullptr) session_->consume(id_, piece_.size());
  co_return piece_;
}

// ---- out

void Http2Stream::wake() {
  if (session_ != nullptr) session_->resume(*this, std::exchange(deferred_, false));
}

Task<Result<void>> Http2Stream::write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (is_closed() || error_) co_return why_closed("write body");
    const std::size_t room = limits_.queue_bytes - std::min(limits_.queue_bytes, queued());
    if (room == 0) {
      sent.reset();
      if (co_await sent.wait(loop_.now() + limits_.write_stall) == linux::Wait::kTimeout)
        co_return make_error(ErrorCode::kTimeout, "write body", "the peer takes no bytes");
      continue;
    }
    if (output_taken_ >= limits_.queue_bytes / 2) {
      output_.erase(0, output_taken_);
      output_taken_ = 0;
    }
    output_ += bytes.substr(0, room);
    bytes.remove_prefix(std::min(room, bytes.size()));
    wake();
  }
  co_return {};
}

void Http2Stream::write_whole(std::string bytes) {
  CHECK(queued() == 0);
  output_ = std::move(bytes);
  output_taken_ = 0;
  wake();
}

void Http2Stream::end(OwnedFields trailers) {
  output_trailers_ = std::move(trailers);
  output_ended_ = true;
  wake();
}

std::ptrdiff_t Http2Stream::fill(std::span<std::uint8_t> into, std::uint32_t& flags) {
  const std::size_t bytes = std::min(into.size(), queued());
  if (bytes == 0 && !output_ended_) {
    deferred_ = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  std::memcpy(into.data(), output_.data() + output_taken_, bytes);
  output_taken_ += bytes;
  last_sent_ = loop_.now();
  sent.set();
  if (queued() > 0) return static_cast<std::ptrdiff_t>(bytes);
  output_.clear();
  output_taken_ = 0;
  if (output_ended_) flags |= NGHTTP2_DATA_FLAG_EOF;
  if (output_ended_ && !output_trailers_.empty()) {
    flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    session_->submit_trailers(id_, output_trailers_);
  }
  return static_cast<std::ptrdiff_t>(bytes);
}

void Http2Stream::output_ended() {
  output_sent_ = true;
  sent.set();
}

Task<Result<void>> Http2Stream::drain() {
  while (!output_sent_) {
    if (is_closed()) co_return why_closed("send the rest");
    sent.reset();
    if (co_await sent.wait(loop_.now() + limits_.write_stall) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "send the rest", "the peer takes no bytes");
  }
  co_return {};
}

// ---- the end

void Http2Stream::reset(std::uint32_t code) {
  if (session_ != nullptr) session_->reset(id_, code);
}

void Http2Stream::fail(Error error, std::uint32_t code) {
  if (!error_) error_ = std::move(error);
  reset(code);
  came.set();
  sent.set();
}

// What was not taken still counts against the connection's window.
void Http2Stream::abandon() {
  abandoned_ = true;
  if (session_ != nullptr && !input_.empty()) session_->consume(id_, input_.size());
  input_.clear();
}

void Http2Stream::closed(std::uint32_t code) {
  code_ = code;
  if (session_ != nullptr && !input_.empty()) session_->consume(id_, input_.size());
  if (!input_ended_) input_.clear();  // part of a message that will never be whole
  session_ = nullptr;
  came.set();
  sent.set();
  over.set();
}

void Http2Stream::lost(Error error) {
  if (!error_) error_ = std::move(error);
  session_ = nullptr;
  closed(NGHTTP2_CANCEL);
}

Error Http2Stream::why_closed(const char* step) const {
  if (error_) return *error_;
  if (code_ == NGHTTP2_REFUSED_STREAM)
    return make_error(ErrorCode::kUnavailable, step, "not processed by the peer");
  const char* const name = nghttp2_http2_strerror(code_);
  if (code_ != NGHTTP2_NO_ERROR && !is_reset_by_peer)
    return make_error(ErrorCode::kInvalid, step, fmt::format("the peer broke HTTP/2 ({})", name));
  return make_error(ErrorCode::kUnavailable, step, fmt::format("the peer ended it ({})", name));
}

}  // namespace pons::http
