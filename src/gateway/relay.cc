#include "relay.h"

#include <algorithm>

#include <fmt/format.h>

#include "answer_feed.h"
#include "event_cutter.h"
#include "pons/base/text.h"
#include "pons/base/version.h"
#include "stream_relay.h"

namespace pons::gateway {

namespace {

using models::Failing;
using models::Failure;
using models::Protocol;

constexpr Duration kKeepAlive = std::chrono::seconds(10);
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

std::optional<Duration> retry_after(std::optional<std::string_view> field) {
  if (!field) return std::nullopt;
  constexpr std::uint64_t kLongest = 3'600;
  const auto seconds = parse_decimal(*field);
  if (!seconds) return std::nullopt;
  return Duration(std::chrono::seconds(std::min(*seconds, kLongest)));
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
    auto prepared = prepare();
    if (!prepared)
      co_return fail({.kind = Failing::kInvalidRequest, .message = prepared.error().message});
    client_.set_fields({});  // of whoever was asked before
    watchers_.spawn(watch_client());
    feed_.emplace(loop_, provider_, std::move(*prepared), news_);
    const ProviderSettings& settings = provider_.settings();
    deadline_ = loop_.now() + (request_.facts.stream ? settings.first_event_time * request_.patience
                                                     : settings.whole_time);
    keep_alive_at_ = loop_.now() + kKeepAlive;
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
    http::OwnedFields fields =
        is_same_protocol() ? fields_for_client(*feed_->head()) : http::OwnedFields();
    fields.emplace_back("x-pons-provider", settings.name);
    fields.emplace_back("x-pons-model", std::string(model_));
    if (!omitted_.empty()) fields.emplace_back("x-pons-omitted", omitted_text(omitted_));
    client_.set_fields(std::move(fields));
    const auto type = feed_->find("content-type");
    const bool streams = type && type->starts_with("text/event-stream");
    if (streams && request_.facts.stream) co_return co_await pass_stream_on();
    co_return co_await pass_whole_on(streams);
  }

 private:
  bool is_same_protocol() const { return spoken_ == request_.protocol; }

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

  Result<http::ClientRequest> prepare() {
    const ProviderSettings& settings = provider_.settings();
    spoken_ = settings.speaks(request_.protocol) ? request_.protocol : settings.protocols.front();
    http::ClientRequest sent{.method = "POST", .target = endpoint_of(settings.url, spoken_)};
    sent.fields = {{"Content-Type", "application/json"},
                   {"Accept", request_.facts.stream ? "text/event-stream" : "application/json"},
                   {"User-Agent", fmt::format("pons/{}", version())}};
    if (is_same_protocol()) {
      sent.body = TRY(body_for_same_protocol());
      for (const auto& field : request_.fields) sent.fields.push_back(field);
    } else {
      models::Request translated = *TRY(request_.whole());
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

  // Until there is news. An outcome when there is nothing to wait for any more.
  [[gnu::noinline]] Task<std::optional<Outcome>> wait() {
    const TimePoint until = request_.facts.stream ? std::min(deadline_, keep_alive_at_) : deadline_;
    const linux::Wait waited = co_await news_.wait(until);
    news_.reset();
    if (gone_) {
      outcome_.ending = Ending::kClientGone;
      co_return std::move(outcome_);
    }
    // First: bytes that trickle in are news, and no answer.
    if (loop_.now() >= deadline_) {
      Failure late{.kind = Failing::kTimeout,
                   .message = "the model provider did not answer in time"};
      co_return relayed_ ? co_await break_off(std::move(late)) : fail(std::move(late));
    }
    if (waited == linux::Wait::kReady) co_return std::nullopt;
    keep_alive_at_ = loop_.now() + kKeepAlive;
    if (!co_await client_.keep_alive()) {
      outcome_.ending = Ending::kClientGone;
      co_return std::move(outcome_);
    }
    co_return std::nullopt;
  }

  // After something of the answer has reached the client, nobody else can be asked.
  [[gnu::noinline]] Task<Outcome> break_off(Failure failure) {
    failure = without_keys(std::move(failure));
    co_await client_.refuse(failure);
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
      body += feed_->take();
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
    outcome_.output_bytes = stream.output_bytes();
    outcome_.response_id = stream.response_id();
  }

  [[gnu::noinline]] Task<Outcome> pass_stream_on() {
    const auto stream =
        is_same_protocol()
            ? pass_stream(spoken_, spoken_ == Protocol::kChat && !request_.facts.wants_usage)
            : translate_stream(spoken_, request_.protocol, *request_.read, *names_);
    EventCutter cutter;
    std::string out;
    while (true) {
      cutter.add(feed_->take());
      const bool over = feed_->is_over();
      while (true) {
        auto event = cutter.next();
        if (!event) co_return co_await fail_here(failure_of(event.error()));
        if (!*event) break;
        if (auto taken = stream->take(**event, out); !taken)
          co_return co_await fail_here(failure_of(taken.error()));
        note(*stream);
        if (stream->failure()) co_return co_await fail_here(*stream->failure());
        if ((*event)->find("data:") != std::string_view::npos)  // comments are no progress
          deadline_ = loop_.now() + provider_.settings().next_event_time;
      }
      if (over) {
        auto ended = feed_->error() ? Result<void>(*feed_->error()) : stream->end(out);
        note(*stream);
        if (!ended) co_return co_await fail_here(failure_of(ended.error()));
        if (stream->failure()) co_return co_await fail_here(*stream->failure());
      }
      if (!stream->has_begun() && out.size() > kPreludeBytesMax)
        co_return fail({.kind = Failing::kUpstream,
                        .message = "the model provider sends everything but an answer"});
      if (!out.empty() && (stream->has_begun() || over)) {
        if (!std::exchange(relayed_, true)) request_.forget_body();
        keep_alive_at_ = loop_.now() + kKeepAlive;
        if (!co_await client_.send(out)) {
          outcome_.ending = Ending::kClientGone;
          co_return std::move(outcome_);
        }
        out.clear();
        progress_(outcome_.usage, outcome_.output_bytes);
      }
      if (over) break;
      if (auto ended = co_await wait()) co_return std::move(*ended);
    }
    co_await client_.finish();
    outcome_.ending = Ending::kAnswered;
    co_return std::move(outcome_);
  }

  [[gnu::noinline]] Task<Outcome> pass_whole_on(bool streams) {
    std::string body;
    while (true) {
      body += feed_->take();
      if (body.size() > kAnswerBytesMax)
        co_return fail({.kind = Failing::kUpstream, .message = "the answer is too large"});
      if (feed_->is_over()) break;
      if (auto ended = co_await wait()) co_return std::move(*ended);
    }
    if (feed_->error()) co_return fail(failure_of(*feed_->error()));
    outcome_.output_bytes = body.size();
    const auto& theirs = models::protocol_text(spoken_);
    if (is_same_protocol() && !request_.facts.stream && !streams) {
      if (!trim(body).starts_with('{'))
        co_return fail({.kind = Failing::kUpstream, .message = "the answer is no JSON object"});
      outcome_.usage = theirs.usage_of(body);
      outcome_.is_usage_known = outcome_.usage != models::Usage{};
      if (spoken_ == Protocol::kResponses) outcome_.response_id = response_id_in(body);
      client_.answer(std::move(body));
    } else {
      auto answer = streams ? collect(theirs, body) : theirs.read_answer(body);
      if (!answer) co_return fail(failure_of(answer.error()));
      outcome_.usage = answer->usage;
      outcome_.is_usage_known = answer->usage != models::Usage{};
      if (!co_await give_answer(std::move(*answer))) {
        outcome_.ending = Ending::kClientGone;
        co_return std::move(outcome_);
      }
    }
    outcome_.ending = Ending::kAnswered;
    co_return std::move(outcome_);
  }

  // A stream to a client that wants the whole.
  static Result<models::Answer> collect(const models::ProtocolText& theirs, std::string_view body) {
    const auto reader = theirs.stream_reader();
    models::AnswerBuilder builder;
    const auto sink = [&](const models::AnswerEvent& event) { builder.take(event); };
    http::EventStreamParser parser(kAnswerBytesMax);
    Result<void> read;
    TRY_VOID(parser.feed(body, [&](const http::ServerEvent& event) {
      if (read) read = reader->feed(event, sink);
    }));
    TRY_VOID(read);
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
  TimePoint deadline_{};
  TimePoint keep_alive_at_{};
  linux::Event news_;
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
