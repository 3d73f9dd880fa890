#include "http2_session.h"

#include <algorithm>
#include <array>

#include "pons/base/check.h"
#include "pons/base/log.h"

namespace pons::http {

namespace {

constexpr std::size_t kInputBytes = 16 * 1024;
constexpr std::size_t kOutputBytes = 64 * 1024;
// Frames of nghttp2's own making (acknowledgements, resets) that wait for a peer that reads
// nothing. Past it, nothing more is read from that peer.
constexpr std::size_t kQueuedFramesMax = 400;
constexpr std::size_t kQueuedAcksMax = 200;
constexpr std::size_t kContinuationsMax = 8;
constexpr std::size_t kTurnBytes = 256 * 1024;                // then the others have a turn
constexpr Duration kLastWordsTime = std::chrono::seconds(2);  // to send why it ends
constexpr int kInterimAnswersMax = 20;

std::string_view view(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

struct OptionDeleter {
  void operator()(nghttp2_option* option) const { nghttp2_option_del(option); }
};
struct CallbacksDeleter {
  void operator()(nghttp2_session_callbacks* callbacks) const {
    nghttp2_session_callbacks_del(callbacks);
  }
};

std::unique_ptr<nghttp2_option, OptionDeleter> make_options(const Http2Limits& limits) {
  nghttp2_option* option = nullptr;
  CHECK(nghttp2_option_new(&option) == 0);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_max_outbound_ack(option, kQueuedAcksMax);
  nghttp2_option_set_max_continuations(option, kContinuationsMax);
  nghttp2_option_set_stream_reset_rate_limit(option, 2 * limits.nuisance_burst,
                                             limits.nuisance_per_second);
  // Its own estimate of a block is generous, and what is sent was within limits when it came.
  nghttp2_option_set_max_send_header_block_length(option, 4 * limits.head.bytes);
  return std::unique_ptr<nghttp2_option, OptionDeleter>(option);
}

}  // namespace

// Each only finds its session and stream.
struct Http2Session::Callbacks {
  static Http2Session& self(void* user) { return *static_cast<Http2Session*>(user); }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    return self(user).begin_headers(*frame);
  }
  static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                    std::uint8_t, void* user) {
    return self(user).take_field(*frame, view(name, name_size), view(value, value_size));
  }
  // Without this one nghttp2 would leave the field out and go on.
  static int invalid_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t*,
                            std::size_t, const std::uint8_t*, std::size_t, std::uint8_t,
                            void* user) {
    return self(user).refuse(frame->hd.stream_id, NGHTTP2_PROTOCOL_ERROR);
  }
  static int invalid_frame(nghttp2_session*, const nghttp2_frame*, int, void* user) {
    self(user).count_nuisance();
    return 0;
  }
  static int frame_came(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    self(user).take_frame(*frame);
    return 0;
  }
  static int data_came(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                       std::size_t size, void* user) {
    if (Http2Stream* stream = self(user).find(id)) {
      stream->take_in(view(data, size));
    } else {
      self(user).consume(id, size);
    }
    return 0;
  }
  static int frame_went(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    const bool carries_message =
        frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (frame->hd.type == NGHTTP2_GOAWAY) self(user).is_going_away_ = true;
    if (!carries_message || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    if (Http2Stream* stream = self(user).find(frame->hd.stream_id)) stream->output_ended();
    return 0;
  }
  static int frame_did_not_go(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
    // A request that does not go is closed by nghttp2.
    if (frame->hd.type == NGHTTP2_HEADERS && self(user).side_ == Http2Side::kServer)
      self(user).reset(frame->hd.stream_id, NGHTTP2_INTERNAL_ERROR);
    return 0;
  }
  static int stream_closed(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user) {
    Http2Session& session = self(user);
    const auto found = session.streams_.find(id);
    if (found == session.streams_.end()) return 0;
    const auto stream = std::move(found->second);
    session.streams_.erase(found);
    session.idle_since_ = session.loop_.now();
    stream->closed(code);
    return 0;
  }
  static ssize_t read_data(nghttp2_session*, std::int32_t, std::uint8_t* into, std::size_t size,
                           std::uint32_t* flags, nghttp2_data_source* source, void*) {
    return static_cast<Http2Stream*>(source->ptr)->fill({into, size}, *flags);
  }

  static std::unique_ptr<nghttp2_session_callbacks, CallbacksDeleter> make() {
    nghttp2_session_callbacks* made = nullptr;
    CHECK(nghttp2_session_callbacks_new(&made) == 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(made, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(made, header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(made, invalid_header);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(made, invalid_frame);
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, frame_came);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, data_came);
    nghttp2_session_callbacks_set_on_frame_send_callback(made, frame_went);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(made, frame_did_not_go);
    nghttp2_session_callbacks_set_on_stream_close_callback(made, stream_closed);
    return std::unique_ptr<nghttp2_session_callbacks, CallbacksDeleter>(made);
  }
};

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
      output_wanted_(loop),
      output_room_(loop),
      over_(loop) {
  const auto callbacks = Callbacks::make();
  const auto options = make_options(limits);
  const auto create =
      side == Http2Side::kServer ? nghttp2_session_server_new2 : nghttp2_session_client_new2;
  nghttp2_session* made = nullptr;
  CHECK(create(&made, callbacks.get(), this, options.get()) == 0);
  native_.reset(made);
  greet();
}

Http2Session::~Http2Session() {
  end();
}

void Http2Session::serve(MayOpen may_open, OnRequest on_request) {
  may_open_ = std::move(may_open);
  on_request_ = std::move(on_request);
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
  const auto buffer = std::make_unique<char[]>(kInputBytes);
  std::size_t turn_bytes = 0;
  while (!is_ending_) {
    if (!co_await wait_for_output_room()) co_return over_.set();
    const TimePoint deadline = next_deadline();
    const auto got = co_await read_some(*transport_, {buffer.get(), kInputBytes}, deadline);
    if (!got && got.error().code == ErrorCode::kTimeout) {
      if (next_deadline() > loop_.now()) continue;
      end_by_us(tracker_.is_in_block() ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_NO_ERROR);
      break;
    }
    if (!got || *got == 0) co_return over_.set();
    feed({buffer.get(), *got});
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

void Http2Session::feed(std::string_view bytes) {
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
  output_wanted_.set();
}

void Http2Session::count_nuisance() {
  const std::chrono::duration<double> passed = loop_.now() - nuisances_counted_;
  nuisances_counted_ = loop_.now();
  nuisances_left_ =
      std::min(static_cast<double>(limits_.nuisance_burst),
               nuisances_left_ + passed.count() * static_cast<double>(limits_.nuisance_per_second));
  if (--nuisances_left_ < 0) end_by_us(NGHTTP2_ENHANCE_YOUR_CALM);
}

Http2Stream* Http2Session::find(std::int32_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.get();
}

int Http2Session::refuse(std::int32_t id, std::uint32_t code) {
  count_nuisance();
  nghttp2_submit_rst_stream(native_.get(), NGHTTP2_FLAG_NONE, id, code);
  return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

int Http2Session::begin_headers(const nghttp2_frame& frame) {
  const std::int32_t id = frame.hd.stream_id;
  if (side_ == Http2Side::kClient || frame.headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  if (is_ending_ || streams_.size() >= limits_.streams || !may_open_())
    return refuse(id, NGHTTP2_REFUSED_STREAM);
  const auto stream = std::make_shared<Http2Stream>(loop_, *this, limits_);
  stream->opened(id);
  streams_.emplace(id, stream);
  return 0;
}

int Http2Session::take_field(const nghttp2_frame& frame, std::string_view name,
                             std::string_view value) {
  const std::int32_t id = frame.hd.stream_id;
  Http2Stream* stream = find(id);
  if (stream == nullptr) return refuse(id, NGHTTP2_REFUSED_STREAM);
  if (stream->is_too_large || stream->block.add(name, value, limits_.head)) return 0;
  const bool is_request = side_ == Http2Side::kServer && !stream->head_done;
  if (!is_request) return refuse(id, NGHTTP2_ENHANCE_YOUR_CALM);
  stream->is_too_large = true;  // and will be answered so
  return 0;
}

void Http2Session::take_frame(const nghttp2_frame& frame) {
  const bool is_last = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  Http2Stream* stream = find(frame.hd.stream_id);
  switch (frame.hd.type) {
    case NGHTTP2_HEADERS:
      if (stream != nullptr) take_headers(frame, *stream);
      break;
    case NGHTTP2_DATA:
      if (is_last && stream != nullptr) stream->input_ended();
      if (!is_last && frame.hd.length == frame.data.padlen) count_nuisance();
      break;
    case NGHTTP2_RST_STREAM:
      if (stream != nullptr) stream->is_reset_by_peer = true;
      count_nuisance();
      break;
    case NGHTTP2_SETTINGS:
      is_greeted_ = true;
      count_nuisance();
      break;
    case NGHTTP2_GOAWAY:
      is_going_away_ = true;
      count_nuisance();
      break;
    default:
      break;
  }
}

void Http2Session::take_headers(const nghttp2_frame& frame, Http2Stream& stream) {
  const bool is_last = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  if (stream.head_done) {
    stream.take_trailers();
    if (!are_trailers_legal(stream.trailers()))
      return stream.fail(make_error(ErrorCode::kInvalid, "read trailers", "one is not legal there"),
                         NGHTTP2_PROTOCOL_ERROR);
  } else if (side_ == Http2Side::kServer) {
    stream.take_head();
    ready_.push_back(streams_.at(frame.hd.stream_id));
  } else {
    take_answer_head(stream);
  }
  if (is_last) stream.input_ended();
}

// Interim answers are skipped: nobody here waits for them.
void Http2Session::take_answer_head(Http2Stream& stream) {
  const std::vector<Field> fields = stream.block.fields();
  if (!fields.empty() && fields[0].name == ":status" && fields[0].value.starts_with('1')) {
    stream.block.clear();
    if (++stream.interim_answers > kInterimAnswersMax)
      refuse(stream.id(), NGHTTP2_ENHANCE_YOUR_CALM);
    return;
  }
  stream.take_head();
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

std::shared_ptr<Http2Stream> Http2Session::open(const FieldsToSend& head, bool has_body) {
  if (!takes_requests()) return nullptr;
  auto stream = std::make_shared<Http2Stream>(loop_, *this, limits_);
  nghttp2_data_provider source{.source = {.ptr = stream.get()},
                               .read_callback = Callbacks::read_data};
  const std::int32_t id = nghttp2_submit_request(native_.get(), nullptr, head.data(), head.size(),
                                                 has_body ? &source : nullptr, nullptr);
  if (id < 0) return nullptr;
  stream->opened(id);
  streams_.emplace(id, stream);
  output_wanted_.set();
  return stream;
}

Result<void> Http2Session::submit_head(Http2Stream& stream, const FieldsToSend& head,
                                       bool has_body) {
  nghttp2_data_provider source{.source = {.ptr = &stream}, .read_callback = Callbacks::read_data};
  if (nghttp2_submit_response(native_.get(), stream.id(), head.data(), head.size(),
                              has_body ? &source : nullptr) != 0)
    return make_error(ErrorCode::kUnavailable, "start answer", "the client left");
  output_wanted_.set();
  return {};
}

void Http2Session::submit_interim(Http2Stream& stream, const FieldsToSend& head) {
  nghttp2_submit_headers(native_.get(), NGHTTP2_FLAG_NONE, stream.id(), nullptr, head.data(),
                         head.size(), nullptr);
  output_wanted_.set();
}

void Http2Session::consume(std::int32_t id, std::size_t bytes) {
  nghttp2_session_consume(native_.get(), id, bytes);
  output_wanted_.set();
}

void Http2Session::resume(Http2Stream& stream, bool is_deferred) {
  if (is_deferred) nghttp2_session_resume_data(native_.get(), stream.id());
  output_wanted_.set();
}

void Http2Session::submit_trailers(std::int32_t id, const OwnedFields& trailers) {
  FieldsToSend list;
  for (const auto& [name, value] : trailers) list.add_lowered(name, value);
  nghttp2_submit_trailer(native_.get(), id, list.data(), list.size());
}

void Http2Session::reset(std::int32_t id, std::uint32_t code) {
  nghttp2_submit_rst_stream(native_.get(), NGHTTP2_FLAG_NONE, id, code);
  output_wanted_.set();
}

}  // namespace pons::http
