#include "http2_session.h"

#include <algorithm>
#include <array>

#include "pons/base/check.h"
#include "pons/base/log.h"
#include "read_buffer.h"

namespace pons::http {

namespace {

constexpr std::size_t kInputBytes = 16 * 1024;  // that are read and dropped at a time
constexpr std::size_t kOutputBytes = 64 * 1024;
// Frames of nghttp2's own making (acknowledgements, resets) that wait for a peer that reads
// nothing. Past it, nothing more is read from that peer.
constexpr std::size_t kQueuedFramesMax = 400;
constexpr std::size_t kTurnBytes = 256 * 1024;                // then the others have a turn
constexpr Duration kLastWordsTime = std::chrono::seconds(2);  // to send why it ends

std::string_view view(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

// ---- the life of a connection

Http2Session::Http2Session(linux::Loop& loop, std::unique_ptr<Transport> transport, Http2Side side,
                           const Http2Limits& limits)
    : loop_(loop),
      transport_(std::move(transport)),
      side_(side),
      limits_(limits),
      tracker_(side == Http2Side::kServer ? NGHTTP2_CLIENT_MAGIC_LEN : 0),
      headers_deadline_(loop.now() + limits.header_time),
      idle_since_(loop.now()),
      nuisances_left_(static_cast<double>(limits.nuisance_burst)),
      nuisances_counted_(loop.now()),
      heard_(loop.now()),
      came_(loop),
      stream_opened_(loop),
      output_wanted_(loop),
      output_room_(loop),
      over_(loop) {
  native_ = create_native();
  greet();
}

Http2Session::~Http2Session() {
  end();
}

void Http2Session::serve(MayOpen may_open, OnRequest on_request, OnRefusal on_refusal) {
  may_open_ = std::move(may_open);
  on_request_ = std::move(on_request);
  on_refusal_ = std::move(on_refusal);
}

void Http2Session::greet() {
  const auto number = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
  const std::array<nghttp2_settings_entry, 5> settings{{
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, number(limits_.stream_window)},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, number(limits_.head.bytes)},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, number(limits_.streams)},
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},  // a client's to say
  }};
  const std::size_t count = side_ == Http2Side::kClient ? 5 : 4;
  CHECK(nghttp2_submit_settings(native_.get(), NGHTTP2_FLAG_NONE, settings.data(), count) == 0);
  CHECK(nghttp2_session_set_local_window_size(
            native_.get(), NGHTTP2_FLAG_NONE, 0,
            static_cast<std::int32_t>(limits_.connection_window)) == 0);
}

Task<> Http2Session::run() {
  {
    linux::TaskGroup pumps(loop_);
    pumps.spawn(write_all_output());
    pumps.spawn(read_all());
    if (side_ == Http2Side::kClient) pumps.spawn(watch_server());
    co_await over_.wait(kNever);
  }
  end();
  if (is_ending_) {
    std::string scratch(kInputBytes, '\0');
    co_await close_gently(*transport_, scratch);
  } else {
    transport_->shut_down_writing();
  }
  transport_.reset();
}

void Http2Session::end() {
  is_over_ = true;
  over_.set();
  for (auto& [id, stream] : std::exchange(streams_, {}))
    stream->lost(is_ending_ ? make_error(ErrorCode::kInvalid, "use HTTP/2 connection",
                                         "it was ended because the peer broke the rules")
                            : make_error(ErrorCode::kUnavailable, "use HTTP/2 connection",
                                         "the connection is over"));
}

// A GOAWAY with the code goes out behind what is queued; nothing more is read.
void Http2Session::end_by_us(std::uint32_t code) {
  if (std::exchange(is_ending_, true)) return;
  if (code != NGHTTP2_NO_ERROR) ++refusals_;
  nghttp2_session_terminate_session(native_.get(), code);
  output_wanted_.set();
}

// ---- in

TimePoint Http2Session::next_deadline() const {
  if (!is_greeted_ || tracker_.is_in_block()) return headers_deadline_;
  if (side_ == Http2Side::kServer && streams_.empty()) return idle_since_ + limits_.idle_time;
  return loop_.now() + limits_.idle_time;  // to look again
}

Task<> Http2Session::read_all() {
  ReadBuffer input;
  std::size_t turn_bytes = 0;
  while (!is_ending_) {
    if (!co_await wait_for_output_room()) co_return over_.set();
    const TimePoint deadline = next_deadline();
    const auto got = co_await read_into(*transport_, input, kInputBytes, deadline);
    if (!got && got.error().code == ErrorCode::kTimeout) {
      if (next_deadline() > loop_.now()) continue;
      end_by_us(tracker_.is_in_block() ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_NO_ERROR);
      tell_refusals();
      break;
    }
    if (!got || *got == 0) co_return over_.set();
    feed(input.unread());
    input.consume(*got);
    if ((turn_bytes += *got) < kTurnBytes) continue;
    turn_bytes = 0;
    co_await loop_.next_round();
  }
  co_await over_.wait(loop_.now() + kLastWordsTime);
  over_.set();
}

// A peer that makes answers and does not read them is not read either.
Task<bool> Http2Session::wait_for_output_room() {
  while (nghttp2_session_get_outbound_queue_size(native_.get()) > kQueuedFramesMax) {
    output_room_.reset();
    if (co_await output_room_.wait(loop_.now() + limits_.write_stall) == linux::Wait::kTimeout)
      co_return false;
  }
  co_return true;
}

// A server behind a link that died without a word, or a middlebox that forgot the connection, look
// like one that thinks.
Task<> Http2Session::watch_server() {
  for (;;) {
    if (streams_.empty()) {
      stream_opened_.reset();
      co_await stream_opened_.wait(kNever);
    }
    if (const TimePoint due = heard_ + limits_.silence_time; loop_.now() < due) {
      co_await loop_.sleep_until(due);
      continue;
    }
    nghttp2_submit_ping(native_.get(), NGHTTP2_FLAG_NONE, nullptr);
    output_wanted_.set();
    came_.reset();
    if (co_await came_.wait(loop_.now() + limits_.sign_of_life_time) == linux::Wait::kTimeout)
      co_return over_.set();
  }
}

void Http2Session::feed(std::string_view bytes) {
  heard_ = loop_.now();
  came_.set();
  const std::uint64_t blocks = tracker_.blocks();
  tracker_.follow(bytes);
  if (is_greeted_ && tracker_.blocks() != blocks)
    headers_deadline_ = loop_.now() + limits_.header_time;
  const auto used = nghttp2_session_mem_recv(
      native_.get(), reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  for (auto& stream : std::exchange(ready_, {}))
    if (!stream->is_closed()) on_request_(std::move(stream));
  if (used < 0) {
    LOG_DEBUG("HTTP/2 peer refused", {"reason", nghttp2_strerror(static_cast<int>(used))});
    end_by_us(used == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR);
  }
  // It was forbidden before there was a request. nghttp2 waits for the server to confirm that.
  if (tracker_.has_push()) end_by_us(NGHTTP2_PROTOCOL_ERROR);
  tell_refusals();
  output_wanted_.set();
}

void Http2Session::tell_refusals() {
  for (std::size_t left = std::exchange(refusals_, 0); on_refusal_ && left > 0; --left)
    on_refusal_();
}

void Http2Session::count_nuisance() {
  const std::chrono::duration<double> passed = loop_.now() - nuisances_counted_;
  nuisances_counted_ = loop_.now();
  nuisances_left_ =
      std::min(static_cast<double>(limits_.nuisance_burst),
               nuisances_left_ + passed.count() * static_cast<double>(limits_.nuisance_per_second));
  if (--nuisances_left_ < 0) end_by_us(NGHTTP2_ENHANCE_YOUR_CALM);
}

// ---- out

// What nghttp2 has to say, up to some size; false when it has a fault of its own.
bool Http2Session::collect_output() {
  while (output_.size() < kOutputBytes) {
    const std::uint8_t* bytes = nullptr;
    const auto size = nghttp2_session_mem_send(native_.get(), &bytes);
    if (size < 0) return false;
    if (size == 0) break;
    output_ += view(bytes, static_cast<std::size_t>(size));
  }
  output_room_.set();
  return true;
}

Task<> Http2Session::write_all_output() {
  std::size_t turn_bytes = 0;
  for (;;) {
    output_wanted_.reset();
    if (!collect_output()) co_return over_.set();
    if (output_.empty()) {
      const bool is_done = nghttp2_session_want_read(native_.get()) == 0 &&
                           nghttp2_session_want_write(native_.get()) == 0;
      if (is_done) is_ending_ = true;
      if (is_ending_) co_return over_.set();
      if (streams_.empty()) output_.shrink_to_fit();
      co_await output_wanted_.wait(kNever);
      continue;
    }
    iovec span = to_iovec(output_);
    const auto written = co_await write_all(*transport_, {&span, 1}, limits_.write_stall);
    if (!written) co_return over_.set();
    turn_bytes += output_.size();
    output_.clear();
    if (turn_bytes < kTurnBytes) continue;
    turn_bytes = 0;
    co_await loop_.next_round();
  }
}

void Http2Session::consume(std::int32_t id, std::size_t bytes) {
  nghttp2_session_consume(native_.get(), id, bytes);
  output_wanted_.set();
}

void Http2Session::resume(Http2Stream& stream, bool is_deferred) {
  if (is_deferred) nghttp2_session_resume_data(native_.get(), stream.id());
  output_wanted_.set();
}

void Http2Session::reset(std::int32_t id, std::uint32_t code) {
  nghttp2_submit_rst_stream(native_.get(), NGHTTP2_FLAG_NONE, id, code);
  output_wanted_.set();
}

}  // namespace pons::http
