#include "relay.h"

#include <time.h>

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "answer_feed.h"
#include "event_cutter.h"
#include "pons/base/text.h"
#include "pons/base/version.h"
#include "pons/models/lost.h"
#include "pons/models/server_tools.h"
#include "stream_relay.h"

namespace pons::gateway {

namespace {

using models::Failing;
using models::Failure;
using models::Protocol;

constexpr Duration kLastBytesTime = std::chrono::seconds(1);  // behind the end of an answer
// When the client has left: the end of an answer says what it costs, and may be on its way.
constexpr Duration kLeavingTime = std::chrono::milliseconds(500);
constexpr std::size_t kLeavingBytesMax = std::size_t{1} << 20;
constexpr std::size_t kAnswerBytesMax = std::size_t{64} << 20;
constexpr std::size_t kPreludeBytesMax = std::size_t{256} << 10;
constexpr std::size_t kErrorBytesMax = std::size_t{256} << 10;

Failure failure_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kTimeout:
      return {.kind = Failing::kTimeout, .message = "the model provider did not answer in time"};
    case ErrorCode::kInvalid:
    case ErrorCode::kLimit:
      return {.kind = Failing::kUpstream,
              .message = "the model provider sent what cannot be read: " + error.message};
    default:
      return {.kind = Failing::kUpstream, .message = "the model provider cannot be reached"};
  }
}

// A number of seconds, or a date: "Sun, 06 Nov 1994 08:49:37 GMT".
std::optional<Duration> retry_after(std::optional<std::string_view> field) {
  if (!field) return std::nullopt;
  constexpr std::chrono::seconds kLongest = std::chrono::hours(1);
  if (const auto seconds = parse_decimal(*field))
    return std::chrono::seconds(std::min<std::uint64_t>(*seconds, kLongest.count()));
  std::tm parts{};
  const std::string text(*field);
  const char* const end = strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const std::chrono::seconds left(timegm(&parts) - std::time(nullptr));
  return std::clamp(left, std::chrono::seconds(0), kLongest);
}

// What a provider says about its limits is of use to who calls it in its own protocol.
http::OwnedFields fields_for_client(const http::ResponseHead& head) {
  http::OwnedFields fields;
  for (const auto& field : head.fields) {
    const std::string_view name = field.name;
    const auto begins = [&](std::string_view with) {
      return name.size() >= with.size() && equal_ignoring_case(name.substr(0, with.size()), with);
    };
    if (begins("anthropic-ratelimit-") || begins("x-ratelimit-") ||
        equal_ignoring_case(name, "openai-processing-ms"))
      fields.emplace_back(name, field.value);
    else if (equal_ignoring_case(name, "request-id") || equal_ignoring_case(name, "x-request-id"))
      fields.emplace_back("x-upstream-request-id", field.value);
  }
  return fields;
}

// Names that a client chose go into a field only if they can stand there.
std::string omitted_text(const models::Omitted& omitted) {
  constexpr std::size_t kNameBytesMax = 64;
  constexpr std::size_t kBytesMax = 1'024;
  std::string text;
  for (const std::string& name : omitted) {
    const std::string_view shown =
        name.size() <= kNameBytesMax && http::is_token(name) ? std::string_view(name) : "other";
    if (text.size() + shown.size() > kBytesMax) break;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", shown);
  }
  return text;
}

// One try, told from top to bottom. A coroutine that is inlined has its frame within that of its
// caller, also while it does not run: streams are many and last long, so none is.
class Relay {
 public:
  Relay(linux::Loop& loop, Provider& provider, std::size_t key, std::string_view model,
        ModelRequest& request, ClientSide& client, const ProgressSink& progress)
      : loop_(loop),
        provider_(provider),
        key_(key),
        model_(model),
        request_(request),
        client_(client),
        progress_(progress),
        news_(loop),
        watchers_(loop) {}

  [[gnu::noinline]] Task<Outcome> run() {
    Outcome outcome = co_await ask();
    if (leaving_) outcome.ending = Ending::kClientGone;
    co_return outcome;
  }

 private:
  [[gnu::noinline]] Task<Outcome> ask() {
    auto prepared = prepare();
    if (!prepared) {
      outcome_.failure = {.kind = Failing::kInvalidRequest, .message = prepared.error().message};
      outcome_.ending = Ending::kUnfit;
      co_return std::move(outcome_);
    }
    client_.set_fields({});  // of whoever was asked before
    watchers_.spawn(watch_client());
    feed_.emplace(loop_, provider_, std::move(*prepared), news_);
    const ProviderSettings& settings = provider_.settings();
    deadline_ = loop_.now() + (request_.facts.stream ? settings.first_event_time * request_.patience
                                                     : settings.whole_time);
    while (feed_->head() == nullptr) {
      if (feed_->error()) co_return fail(failure_of(*feed_->error()));
      if (auto ended = co_await wait()) co_return std::move(*ended);
    }
    outcome_.upstream_status = feed_->head()->status;
    if (feed_->head()->status != 200) co_return co_await take_refusal();
    if (const auto coding = feed_->find("content-encoding"); coding && *coding != "identity")
      co_return fail(
          {.kind = Failing::kUpstream,
           .message = "the model provider's answer is compressed, which was not asked for"});
    client_.set_fields(answer_fields());
    const auto type = feed_->find("content-type");
    const bool streams = type && type->starts_with("text/event-stream");
    if (streams && request_.facts.stream) co_return co_await pass_stream_on();
    co_return co_await pass_whole_on(streams);
  }

  bool is_same_protocol() const { return spoken_ == request_.protocol; }

  http::OwnedFields answer_fields() const {
    http::OwnedFields fields =
        is_same_protocol() ? fields_for_client(*feed_->head()) : http::OwnedFields();
    fields.emplace_back("x-pons-provider", provider_.settings().name);
    fields.emplace_back("x-pons-model", std::string(model_));
    if (!omitted_.empty()) fields.emplace_back("x-pons-omitted", omitted_text(omitted_));
    return fields;
  }

  // Some providers repeat the key that they refuse.
  Failure without_keys(Failure failure) const {
    failure.message = provider_.without_keys(std::move(failure.message));
    failure.code = provider_.without_keys(std::move(failure.code));
    return failure;
  }

  Outcome fail(Failure failure) {
    outcome_.failure = without_keys(std::move(failure));
    outcome_.ending = Ending::kFailed;
    return std::move(outcome_);
  }

  // Of what the provider speaks, the client's own protocol, or else the first that has words for
  // the request.
  Result<http::ClientRequest> prepare() {
    const ProviderSettings& settings = provider_.settings();
    if (settings.speaks(request_.protocol)) return prepare_in(request_.protocol);
    std::optional<Error> refusal;
    for (const Protocol protocol : settings.protocols) {
      auto prepared = prepare_in(protocol);
      if (prepared) return prepared;
      if (!refusal) refusal = std::move(prepared.error());
    }
    return std::move(*refusal);
  }

  Result<http::ClientRequest> prepare_in(Protocol protocol) {
    const ProviderSettings& settings = provider_.settings();
    spoken_ = protocol;
    omitted_.clear();
    http::ClientRequest sent{.method = "POST", .target = endpoint_of(settings.url, spoken_)};
    sent.fields = {{"Content-Type", "application/json"},
                   {"Accept", request_.facts.stream ? "text/event-stream" : "application/json"},
                   {"User-Agent", fmt::format("pons/{}", version())}};
    if (is_same_protocol()) {
      sent.body = TRY(body_for_same_protocol());
      for (const auto& field : request_.fields) sent.fields.push_back(field);
    } else {
      models::Request translated = *TRY(request_.whole());
      models::leave_out_search(translated, omitted_);
      models::name_what_is_lost(translated, omitted_);
      names_.emplace(translated, spoken_);
      sent.body = TRY(models::protocol_text(spoken_).write_request(translated, model_, omitted_));
    }
    const auto has_version = [&](const auto& field) { return field.first == "anthropic-version"; };
    if (spoken_ == Protocol::kMessages && std::ranges::none_of(sent.fields, has_version))
      sent.fields.emplace_back("anthropic-version", "2023-06-01");
    provider_.add_key_field(key_, sent.fields);
    return sent;
  }

  Result<std::string> body_for_same_protocol() {
    if (request_.facts.carries_proof) {
      const models::Request* const read = TRY(request_.whole());
      return models::protocol_text(spoken_).write_request(*read, model_, omitted_);
    }
    std::string body = request_.body;
    models::rename_model(spoken_, body, request_.facts, model_);
    return body;
  }

  [[gnu::noinline]] Task<> watch_client() {
    gone_ = co_await client_.exchange().wait_for_hang_up(kNever);
    news_.set();
  }

  // Nobody reads what comes any more; for a moment it is read for what it says about its cost.
  void begin_to_leave() {
    leaving_ = true;
    deadline_ = std::min(deadline_, loop_.now() + kLeavingTime);
  }

  std::string take_bytes() {
    std::string bytes = feed_->take();
    if (leaving_) read_leaving_ += bytes.size();
    return bytes;
  }

  Outcome leave() {
    outcome_.ending = Ending::kClientGone;
    return std::move(outcome_);
  }

  // Until there is news. An outcome when there is nothing to wait for any more.
  [[gnu::noinline]] Task<std::optional<Outcome>> wait() {
    const bool keeps_alive = request_.facts.stream && !leaving_;
    const TimePoint until = keeps_alive ? std::min(deadline_, client_.keep_alive_at()) : deadline_;
    const linux::Wait waited = co_await news_.wait(until);
    news_.reset();
    if (gone_ && !leaving_) begin_to_leave();
    // First: bytes that trickle in are news, and no answer.
    if (loop_.now() >= deadline_ || read_leaving_ > kLeavingBytesMax) {
      if (leaving_) co_return leave();
      Failure late{.kind = Failing::kTimeout,
                   .message = "the model provider did not answer in time"};
      co_return relayed_ ? co_await break_off(std::move(late)) : fail(std::move(late));
    }
    if (waited == linux::Wait::kReady) co_return std::nullopt;
    if (keeps_alive && !co_await client_.keep_alive(loop_.now())) begin_to_leave();
    co_return std::nullopt;
  }

  // After something of the answer has reached the client, nobody else can be asked. Its stream ends
  // with the failure, counted on from what was told.
  [[gnu::noinline]] Task<Outcome> break_off(Failure failure) {
    failure = without_keys(std::move(failure));
    if (!leaving_) {
      std::string out;
      stream_->fail(failure, out);
      co_await client_.end_with(provider_.without_keys(std::move(out)));
    }
    outcome_.ending = Ending::kBroken;
    outcome_.failure = std::move(failure);
    co_return std::move(outcome_);
  }

  [[gnu::noinline]] Task<Outcome> fail_here(Failure failure) {
    if (relayed_) co_return co_await break_off(std::move(failure));
    co_return fail(std::move(failure));
  }

  [[gnu::noinline]] Task<Outcome> take_refusal() {
    const int status = feed_->head()->status;
    if (is_same_protocol()) client_.set_fields(fields_for_client(*feed_->head()));
    const auto after = retry_after(feed_->find("retry-after"));
    std::string body;
    while (true) {
      body += take_bytes();
      if (feed_->is_over() || body.size() > kErrorBytesMax) break;
      if (auto ended = co_await wait()) co_return std::move(*ended);
    }
    Failure failure = models::protocol_text(spoken_).read_error(status, body);
    if (status == 401) failure.kind = Failing::kAuthentication;
    if (status == 403) failure.kind = Failing::kPermission;
    if (!failure.retry_after) failure.retry_after = after;
    co_return fail(std::move(failure));
  }

  void note(const StreamRelay& stream) {
    outcome_.usage = stream.usage();
    outcome_.is_usage_known = stream.usage() != models::Usage{};
    outcome_.is_usage_final = outcome_.is_usage_known && stream.is_sealed();
    outcome_.output_bytes = stream.output_bytes();
    outcome_.response_id = stream.response_id();
  }

  void note_whole(const models::Usage& usage) {
    outcome_.usage = usage;
    outcome_.is_usage_known = outcome_.is_usage_final = usage != models::Usage{};
  }

  // What the events that are here come to. An event that nobody can read, or that reports a
  // failure, leaves nothing in `out`.
  std::optional<Failure> take_events(EventCutter& cutter, StreamRelay& stream, std::string& out) {
    while (true) {
      const auto event = cutter.next();
      if (!event) return failure_of(event.error());
      if (!*event) return std::nullopt;
      const std::size_t before = out.size();
      const auto taken = stream.take(**event, out);
      note(stream);
      if (!taken || stream.failure()) {
        out.resize(before);
        return taken ? *stream.failure() : failure_of(taken.error());
      }
      // Comments are no progress.
      if (!leaving_ && (*event)->find("data:") != std::string_view::npos)
        deadline_ = loop_.now() + provider_.settings().next_event_time;
    }
  }

  std::optional<Failure> end(StreamRelay& stream, std::string& out) {
    if (feed_->error()) return failure_of(*feed_->error());
    const auto ended = stream.end(out);
    note(stream);
    if (!ended) return failure_of(ended.error());
    return stream.failure();
  }

  // Until the connection has ended, too, so that it can serve again; not for long. False: no more
  // of it.
  [[gnu::noinline]] Task<bool> wait_for_last_bytes() {
    if (last_bytes_until_ == TimePoint{}) last_bytes_until_ = loop_.now() + kLastBytesTime;
    const linux::Wait waited = co_await news_.wait(last_bytes_until_);
    news_.reset();
    co_return waited == linux::Wait::kReady && !gone_ && loop_.now() < last_bytes_until_;
  }

  // What has come, to the client, if it is still there.
  [[gnu::noinline]] Task<> pass(std::string& out) {
    if (!std::exchange(relayed_, true)) request_.forget_body();
    client_.hears(loop_.now());
    if (!leaving_ && !co_await client_.send(out)) begin_to_leave();
    out.clear();
    progress_(outcome_.usage, outcome_.output_bytes);
  }

  [[gnu::noinline]] Task<Outcome> pass_stream_on() {
    stream_ = is_same_protocol()
                  ? pass_stream(spoken_, spoken_ == Protocol::kChat && !request_.facts.wants_usage)
                  : translate_stream(spoken_, request_.protocol, *request_.read, *names_);
    StreamRelay& stream = *stream_;
    EventCutter cutter;
    std::string out;
    while (true) {
      cutter.add(take_bytes());
      bool over = feed_->is_over();
      std::optional<Failure> failure = take_events(cutter, stream, out);
      if (!failure && over && !stream.is_sealed()) failure = end(stream, out);
      over = over || failure;
      if (failure && !stream.is_sealed()) {
        if (relayed_ && !out.empty() && !leaving_) (void)co_await client_.send(out);
        co_return co_await fail_here(std::move(*failure));
      }
      if (!stream.has_begun() && out.size() > kPreludeBytesMax)
        co_return fail({.kind = Failing::kUpstream,
                        .message = "the model provider sends everything but an answer"});
      if (!out.empty() && (stream.has_begun() || over)) co_await pass(out);
      if (over) break;
      if (stream.is_sealed()) {
        if (leaving_ || !co_await wait_for_last_bytes()) break;
      } else if (auto ended = co_await wait()) {
        co_return std::move(*ended);
      }
    }
    if (!leaving_) co_await client_.finish();
    outcome_.ending = Ending::kAnswered;
    co_return std::move(outcome_);
  }

  [[gnu::noinline]] Task<Outcome> pass_whole_on(bool streams) {
    std::string body;
    while (true) {
      body += take_bytes();
      if (body.size() > kAnswerBytesMax)
        co_return fail({.kind = Failing::kUpstream, .message = "the answer is too large"});
      if (feed_->is_over()) break;
      if (auto ended = co_await wait()) co_return std::move(*ended);
    }
    const auto& theirs = models::protocol_text(spoken_);
    // A connection that broke behind the last byte of an answer takes nothing from it.
    if (feed_->error() && !(streams ? collect(theirs, body, Cut::kYes) : theirs.read_answer(body)))
      co_return fail(failure_of(*feed_->error()));
    outcome_.output_bytes = body.size();
    if (is_same_protocol() && !request_.facts.stream && !streams) {
      if (!trim(body).starts_with('{'))
        co_return fail({.kind = Failing::kUpstream, .message = "the answer is no JSON object"});
      note_whole(theirs.usage_of(body));
      if (spoken_ == Protocol::kResponses) outcome_.response_id = response_id_in(body);
      client_.answer(std::move(body));
    } else {
      auto answer = streams ? collect(theirs, body, Cut::kNo) : theirs.read_answer(body);
      if (!answer) co_return fail(failure_of(answer.error()));
      note_whole(answer->usage);
      models::name_what_is_lost(*answer, request_.protocol, omitted_);
      client_.set_fields(answer_fields());
      if (!leaving_ && !co_await give_answer(std::move(*answer))) co_return leave();
    }
    outcome_.ending = Ending::kAnswered;
    co_return std::move(outcome_);
  }

  // A stream to a client that wants the whole. One that was cut must have had its last word.
  enum class Cut : std::uint8_t { kNo, kYes };
  static Result<models::Answer> collect(const models::ProtocolText& theirs, std::string_view body,
                                        Cut cut) {
    const auto reader = theirs.stream_reader();
    models::AnswerBuilder builder;
    bool is_sealed = false;
    const auto sink = [&](const models::AnswerEvent& event) {
      is_sealed = is_sealed || std::holds_alternative<models::AnswerEnds>(event);
      builder.take(event);
    };
    http::EventStreamParser parser(kAnswerBytesMax);
    Result<void> read;
    TRY_VOID(parser.feed(body, [&](const http::ServerEvent& event) {
      if (read) read = reader->feed(event, sink);
    }));
    TRY_VOID(read);
    if (cut == Cut::kYes && !is_sealed)
      return make_error(ErrorCode::kUnavailable, "read answer", "the provider's stream broke off");
    TRY_VOID(reader->finish(sink));
    if (builder.failure())
      return make_error(ErrorCode::kUnavailable, "read answer", builder.failure()->message);
    return std::move(builder.answer());
  }

  // The whole to a client that wants either. False: it is gone.
  [[gnu::noinline]] Task<bool> give_answer(models::Answer answer) {
    if (names_)
      for (models::Part& part : answer.parts) names_->restore(part);
    auto request = request_.whole();
    const models::Request plain{.protocol = request_.protocol, .model = request_.facts.model};
    const models::Request& asked = request ? **request : plain;
    const auto& ours = models::protocol_text(request_.protocol);
    if (!request_.facts.stream) {
      client_.answer(ours.write_answer(answer, asked));
      co_return true;
    }
    const auto writer = ours.stream_writer(asked);
    std::string out;
    for (const models::AnswerEvent& event : models::events_of(answer)) writer->take(event, out);
    if (!co_await client_.send(out)) co_return false;
    co_await client_.finish();
    co_return true;
  }

  linux::Loop& loop_;
  Provider& provider_;
  std::size_t key_;
  std::string_view model_;
  ModelRequest& request_;
  ClientSide& client_;
  const ProgressSink& progress_;
  Protocol spoken_ = Protocol::kMessages;
  std::optional<models::ToolNames> names_;
  models::Omitted omitted_;
  Outcome outcome_;
  bool relayed_ = false;  // something of an answer has gone to the client
  bool gone_ = false;
  bool leaving_ = false;  // the client is gone, and that is known here
  std::size_t read_leaving_ = 0;
  TimePoint deadline_{};
  TimePoint last_bytes_until_{};
  linux::Event news_;
  std::unique_ptr<StreamRelay> stream_;
  std::optional<AnswerFeed> feed_;
  linux::TaskGroup watchers_;  // last: its tasks use all of the above
};

}  // namespace

std::string endpoint_of(const ProviderUrl& url, Protocol protocol) {
  switch (protocol) {
    case Protocol::kMessages:
      return url.path + (url.path.ends_with("/v1") ? "/messages" : "/v1/messages");
    case Protocol::kChat:
      return (url.path.empty() ? "/v1" : url.path) + "/chat/completions";
    case Protocol::kResponses:
      break;
  }
  return (url.path.empty() ? "/v1" : url.path) + "/responses";
}

Task<Outcome> relay_call(linux::Loop& loop, Provider& provider, std::size_t key,
                         std::string_view model, ModelRequest& request, ClientSide& client,
                         const ProgressSink& progress) {
  Relay relay(loop, provider, key, model, request, client, progress);
  co_return co_await relay.run();
}

}  // namespace pons::gateway
