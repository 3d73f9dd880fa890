// What frames mean: the way from nghttp2 to streams, and back for heads.

#include <algorithm>

#include "http2_session.h"
#include "pons/base/check.h"

namespace pons::http {

namespace {

constexpr std::size_t kQueuedAcksMax = 200;
constexpr std::size_t kContinuationsMax = 8;
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
    self(user).note_malformed(*frame);
    return self(user).refuse(frame->hd.stream_id, NGHTTP2_PROTOCOL_ERROR);
  }
  static int invalid_frame(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
    self(user).note_malformed(*frame);
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

Http2Session::NativeSession Http2Session::create_native() {
  const auto callbacks = Callbacks::make();
  const auto options = make_options(limits_);
  const auto create =
      side_ == Http2Side::kServer ? nghttp2_session_server_new2 : nghttp2_session_client_new2;
  nghttp2_session* made = nullptr;
  CHECK(create(&made, callbacks.get(), this, options.get()) == 0);
  return NativeSession(made);
}

// ---- in

Http2Stream* Http2Session::find(std::int32_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.get();
}

// A head that can be no request, once; what belongs to a request is its handler's affair.
void Http2Session::note_malformed(const nghttp2_frame& frame) {
  Http2Stream* stream = find(frame.hd.stream_id);
  if (frame.hd.type != NGHTTP2_HEADERS || stream == nullptr || stream->head_done) return;
  if (!std::exchange(stream->is_malformed, true)) ++refusals_;
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
    stream.take_head(is_last);
    ready_.push_back(streams_.at(frame.hd.stream_id));
  } else {
    take_answer_head(stream, is_last);
  }
  if (is_last) stream.input_ended();
}

// Interim answers are skipped: nobody here waits for them.
void Http2Session::take_answer_head(Http2Stream& stream, bool is_last) {
  const std::vector<Field> fields = stream.block.fields();
  if (!fields.empty() && fields[0].name == ":status" && fields[0].value.starts_with('1')) {
    stream.block.clear();
    if (++stream.interim_answers > kInterimAnswersMax)
      refuse(stream.id(), NGHTTP2_ENHANCE_YOUR_CALM);
    return;
  }
  stream.take_head(is_last);
}

// ---- out

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
  stream_opened_.set();
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

void Http2Session::submit_trailers(std::int32_t id, const OwnedFields& trailers) {
  FieldsToSend list;
  for (const auto& [name, value] : trailers) list.add_lowered(name, value);
  nghttp2_submit_trailer(native_.get(), id, list.data(), list.size());
}

}  // namespace pons::http
