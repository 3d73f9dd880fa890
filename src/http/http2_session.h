#pragma once

#include <nghttp2/nghttp2.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http2_frame_tracker.h"
#include "http2_stream.h"
#include "pons/http/http2.h"
#include "pons/http/transport.h"
#include "pons/linux/loop.h"

namespace pons::http {

enum class Http2Side : std::uint8_t { kServer, kClient };

// One HTTP/2 connection of either side: nghttp2 between a transport and streams. Two coroutines
// move bytes; handlers of streams only ever touch queues and are woken through events, so nothing
// runs inside a callback of nghttp2.
class Http2Session {
 public:
  // A request whose head is complete. Never called from within nghttp2.
  using OnRequest = std::function<void(std::shared_ptr<Http2Stream>)>;
  using MayOpen = std::function<bool()>;  // is there room for one more request?
  // A request whose head cannot be read, or a connection that ends because it breaks the rules.
  using OnRefusal = std::function<void()>;

  Http2Session(linux::Loop& loop, std::unique_ptr<Transport> transport, Http2Side side,
               const Http2Limits& limits);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  void serve(MayOpen may_open, OnRequest on_request, OnRefusal on_refusal);
  // Until the connection is over. Every stream is closed then.
  Task<> run();
  bool takes_requests() const { return !is_over_ && !is_going_away_; }

  // Null when the connection can take no more.
  std::shared_ptr<Http2Stream> open(const FieldsToSend& head, bool has_body);
  Result<void> submit_head(Http2Stream& stream, const FieldsToSend& head, bool has_body);
  void submit_interim(Http2Stream& stream, const FieldsToSend& head);

  // ---- for streams
  void consume(std::int32_t id, std::size_t bytes);
  void resume(Http2Stream& stream, bool is_deferred);
  void submit_trailers(std::int32_t id, const OwnedFields& trailers);
  void reset(std::int32_t id, std::uint32_t code);

 private:
  struct Callbacks;  // nghttp2's way in
  struct Deleter {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };

  using NativeSession = std::unique_ptr<nghttp2_session, Deleter>;

  NativeSession create_native();
  void greet();
  Task<> read_all();
  Task<> write_all_output();
  Task<> watch_server();
  Task<bool> wait_for_output_room();
  void feed(std::string_view bytes);
  bool collect_output();
  TimePoint next_deadline() const;
  void count_nuisance();
  void end_by_us(std::uint32_t code);
  void end();

  Http2Stream* find(std::int32_t id);
  int begin_headers(const nghttp2_frame& frame);
  int take_field(const nghttp2_frame& frame, std::string_view name, std::string_view value);
  int refuse(std::int32_t id, std::uint32_t code);
  void take_frame(const nghttp2_frame& frame);
  void take_headers(const nghttp2_frame& frame, Http2Stream& stream);
  void take_answer_head(Http2Stream& stream, bool is_last);
  void note_malformed(const nghttp2_frame& frame);
  void tell_refusals();

  linux::Loop& loop_;
  std::unique_ptr<Transport> transport_;
  const Http2Side side_;
  const Http2Limits limits_;
  MayOpen may_open_;
  OnRequest on_request_;
  OnRefusal on_refusal_;
  std::size_t refusals_ = 0;  // to be told after feed()
  std::map<std::int32_t, std::shared_ptr<Http2Stream>> streams_;
  std::vector<std::shared_ptr<Http2Stream>> ready_;  // requests to be handed over after feed()

  bool is_greeted_ = false;     // the peer's first SETTINGS came
  bool is_going_away_ = false;  // a GOAWAY went or came: no new streams
  bool is_ending_ = false;      // this side wants to end it; what is queued still goes out
  bool is_over_ = false;
  Http2FrameTracker tracker_;
  TimePoint headers_deadline_;  // of the greeting, or of the block of fields that is coming in
  TimePoint idle_since_;
  double nuisances_left_;
  TimePoint nuisances_counted_;

  std::string output_;
  TimePoint heard_;  // when something last came from the peer
  linux::Event came_;
  linux::Event stream_opened_;
  linux::Event output_wanted_;
  linux::Event output_room_;
  linux::Event over_;
  NativeSession native_;
};

}  // namespace pons::http
