#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http2_fields.h"
#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/http2.h"
#include "pons/linux/loop.h"

namespace pons::http {

// One stream of a session: what came in and was not taken yet, and what waits to go out. The
// session forgets it when it is closed; whoever handles it may keep it longer.
class Http2Stream {
 public:
  Http2Stream(linux::Loop& loop, Http2Session& session, const Http2Limits& limits);
  Http2Stream(const Http2Stream&) = delete;
  Http2Stream& operator=(const Http2Stream&) = delete;

  // ---- for its handler

  // The next piece of what the peer sends, empty at its end; valid until the next call. The peer
  // may send as much again from the moment it is taken.
  Task<Result<std::string_view>> read(Duration idle_max);
  // Returns when all of it is queued, and the queue is short.
  Task<Result<void>> write(std::string_view bytes);
  // As one piece of any size.
  void write_whole(std::string bytes);
  void end(OwnedFields trailers = {});
  // Until all that was written has been sent. A peer that takes nothing is an error.
  Task<Result<void>> drain();
  void reset(std::uint32_t code);
  // The same with the reason that later calls give.
  void fail(Error error, std::uint32_t code = NGHTTP2_CANCEL);
  // Whoever handled it takes no more.
  void abandon();

  bool is_closed() const { return session_ == nullptr; }
  bool has_whole_input() const { return input_ended_; }
  // True when nothing but a head was sent; a body that came along with its head is a body.
  bool has_only_head() const { return has_only_head_; }
  bool has_sent_all() const { return output_sent_; }
  std::int32_t id() const { return id_; }
  TimePoint last_sent() const { return last_sent_; }
  const FieldBlock& head_block() const { return head_; }  // complete when head_done
  const OwnedFields& trailers() const { return trailers_; }
  const std::optional<Error>& local_error() const { return error_; }
  Error why_closed(const char* step) const;

  // Set when something came, and when something was sent; both when the stream is closed.
  linux::Event came;
  linux::Event sent;
  linux::Event over;  // set when it is closed

  // ---- for its session

  FieldBlock block;           // fields on their way in
  bool head_done = false;     // what follows is the body, and then trailers
  bool is_too_large = false;  // the head
  bool is_malformed = false;  // the head, and its session knows
  int interim_answers = 0;    // a client's
  bool is_reset_by_peer = false;

  void opened(std::int32_t id) { id_ = id; }
  void take_in(std::string_view bytes);
  void input_ended();
  void take_head(bool is_last);  // from the block
  void take_trailers();          // the same
  void output_ended();
  void closed(std::uint32_t code);
  void lost(Error error);  // with the connection
  // Fills a DATA frame; see nghttp2_data_source_read_callback.
  std::ptrdiff_t fill(std::span<std::uint8_t> into, std::uint32_t& flags);

 private:
  std::size_t queued() const { return output_.size() - output_taken_; }
  void wake();

  linux::Loop& loop_;
  Http2Session* session_;  // null when the stream is closed
  const Http2Limits limits_;
  std::int32_t id_ = -1;

  std::string input_;  // within the stream's window
  std::string piece_;  // what the handler was given last
  FieldBlock head_;
  OwnedFields trailers_;
  bool input_ended_ = false;
  bool has_only_head_ = false;
  bool abandoned_ = false;

  std::string output_;
  std::size_t output_taken_ = 0;  // by nghttp2, from the front
  OwnedFields output_trailers_;
  bool output_ended_ = false;  // nothing more will be written
  bool output_sent_ = false;   // and the peer was told
  bool deferred_ = false;      // nghttp2 waits to be told of more
  TimePoint last_sent_;

  std::uint32_t code_ = 0;      // with which it was closed
  std::optional<Error> error_;  // why, when this side decided it
};

}  // namespace pons::http
