#include "relay.h"

#include <algorithm>

#include "body_memory.h"
#include "decision_record.h"
#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/roles/channel.h"
#include "relay_case.h"

namespace pons::egress {

namespace {

constexpr std::size_t kUpstreamsMax = 8;  // of one connection to the proxy
constexpr std::size_t kReadyBytes =
    64 * 1024;  // of an answer, to be delivered before more is unpacked

constexpr http::ClientLimits kUpstreamLimits{
    .connect_time = std::chrono::seconds(30),
    .first_byte_time = std::chrono::minutes(15),  // models think
    .idle_time = std::chrono::minutes(15),
    .write_stall = std::chrono::minutes(2),
    .idle_connections = 1,
    .idle_connection_time = std::chrono::minutes(5)};

}  // namespace

Relay::Relay(Boundary& boundary, std::shared_ptr<AttachedSandbox> sandbox,
             std::optional<Origin> origin, std::unique_ptr<http::Transport> ready, Version version,
             RelayLimits limits)
    : boundary_(boundary),
      sandbox_(std::move(sandbox)),
      origin_(std::move(origin)),
      version_(version),
      limits_(limits) {
  if (origin_ && ready != nullptr) upstream_for(*origin_).ready = std::move(ready);
}

// A client that resets its stream, or rules that change, end a request where it waits: what has
// left by then must not be missing in the log.
class Relay::UnfinishedRecord {
 public:
  UnfinishedRecord(Relay& relay, const Case& request) : relay_(relay), request_(request) {}
  UnfinishedRecord(const UnfinishedRecord&) = delete;
  UnfinishedRecord& operator=(const UnfinishedRecord&) = delete;
  ~UnfinishedRecord() {
    if (!finished_)
      relay_.record(request_, audit::Verdict::kCut, "cancelled", request_.judged.rule);
  }
  void set_finished() { finished_ = true; }

 private:
  Relay& relay_;
  const Case& request_;
  bool finished_ = false;
};

Task<> Relay::handle(http::Exchange& exchange) {
  Case request{.exchange = exchange, .id = "req_" + random_text(20)};
  ++sandbox_->traffic.requests;
  UnfinishedRecord unfinished(*this, request);
  const auto refusal = co_await carry(request);
  unfinished.set_finished();
  if (!refusal) {
    record_passed(request);
    co_return;
  }
  ++sandbox_->traffic.refused;
  record(request, request.has_left ? audit::Verdict::kCut : audit::Verdict::kBlock, refusal->code,
         refusal->rule);
  if (request.answer_begun) {
    exchange.abort();
  } else {
    exchange.respond(to_response(*refusal, to_text(request.origin.host), request.id));
  }
}

void Relay::record_passed(Case& request) {
  Judged& judged = request.judged;
  if (request.body && request.body->tolerated() && judged.inert.empty())
    judged.inert = judged.stub_owners->at(request.body->tolerated()->id);
  const bool swapped = !judged.credentials.empty();
  if (!swapped && !judged.inert.empty()) judged.credentials.push_back(judged.inert);
  record(request,
         request.scrubbed        ? audit::Verdict::kScrub
         : swapped               ? audit::Verdict::kSwap
         : !judged.inert.empty() ? audit::Verdict::kInert
                                 : audit::Verdict::kAllow,
         judged.inert.empty() ? "" : "stub_inert", judged.rule);
}

// ---- one request, from beginning to end

Task<std::optional<Refusal>> Relay::carry(Case& request) {
  auto origin = origin_of(request.exchange.request());
  if (!origin) co_return origin.error();
  request.origin = *origin;
  if (auto refusal = take_stream_memory(request)) co_return refusal;
  request.policy_generation = sandbox_->policy->generation();
  auto judged = judge_request(boundary_, *sandbox_, request.origin, request.exchange.request());
  if (!judged) co_return judged.error();
  request.judged = std::move(*judged);
  if (auto refusal = introduce(request)) co_return refusal;
  // gRPC needs to be told that trailers are welcome.
  if (version_ == Version::kHttp2 && request.exchange.request().find("te") == "trailers")
    request.judged.request.fields.emplace_back("te", "trailers");
  // Data leaves in heads as well.
  std::uint64_t head_bytes = request.judged.request.target.size();
  for (const auto& [name, value] : request.judged.request.fields)
    head_bytes += name.size() + value.size();
  if (!sandbox_->spend(head_bytes)) co_return budget_spent();
  if (is_answered_here(request.origin.host)) co_return co_await answer_tool(request);
  if (request.exchange.request().upgrade)
    co_return co_await carry_websocket(request, upstream_for(request.origin));
  if (auto refusal = co_await prepare_body(request)) co_return refusal;
  Upstream& upstream = upstream_for(request.origin);
  co_return co_await send(request, upstream);
}

// Of streams one connection has many, and each holds its head and what its client has not taken.
std::optional<Refusal> Relay::take_stream_memory(Case& request) {
  if (version_ != Version::kHttp2) return std::nullopt;
  std::uint64_t head = request.exchange.request().target.size();
  for (const http::Field& field : request.exchange.request().fields)
    head += field.name.size() + field.value.size();
  auto memory = take_body_memory(boundary_, *sandbox_, kStreamQueueBytes + 2 * head);
  if (!memory) return memory.error();
  request.memory = std::move(*memory);
  return std::nullopt;
}

// A name that did not come by DNS counts like one that did. A role of ours is told who asks.
std::optional<Refusal> Relay::introduce(Case& request) {
  const auto* name = std::get_if<names::HostName>(&request.origin.host);
  if (name == nullptr) return std::nullopt;
  if (is_built_in(*name)) {
    request.judged.request.fields.emplace_back("X-Pons-Sandbox", sandbox_->id);
    return std::nullopt;
  }
  if (origin_) return std::nullopt;
  Decision decision = sandbox_->policy->judge_connect(request.origin.host, request.origin.port);
  if (sandbox_->names.assign(*name, decision.breadth, boundary_.loop.now())) return std::nullopt;
  decision.reason = Reason::kTooManyNames;
  return refusal_of(decision, request.origin);
}

// A request to the proxy names its host itself; judge_request() compares it with its Host field.
std::expected<Origin, Refusal> Relay::origin_of(const http::RequestHead& head) const {
  if (origin_) return *origin_;
  const auto refuse = [](std::string reason) {
    return std::unexpected(Refusal{.status = 400,
                                   .code = "malformed_request",
                                   .reason = std::move(reason),
                                   .hint = "use CONNECT, or http://host/path as the target",
                                   .rule = {}});
  };
  constexpr std::string_view kScheme = "http://";
  if (head.target.size() < kScheme.size() ||
      !equal_ignoring_case(head.target.substr(0, kScheme.size()), kScheme))
    return refuse("this is a proxy: the target must be a whole address");
  std::string_view authority = head.host;
  std::uint16_t port = 80;
  if (const auto colon = authority.rfind(':');
      colon != std::string_view::npos && authority.find(']', colon) == std::string_view::npos) {
    const auto number = parse_decimal(authority.substr(colon + 1));
    if (!number || *number == 0 || *number > 65'535) return refuse("the port is not a number");
    port = static_cast<std::uint16_t>(*number);
    authority = authority.substr(0, colon);
  }
  const auto host = parse_destination(authority);
  if (!host) return refuse("the host is not a name");
  return Origin{*host, port, false};
}

Task<std::optional<Refusal>> Relay::prepare_body(Case& request) {
  const http::RequestHead& head = request.exchange.request();
  auto body = RequestBody::open(boundary_, *sandbox_, request.exchange, request.judged);
  if (!body) co_return body.error();
  request.body.emplace(std::move(*body));
  if (head.framing == http::BodyFraming::kNone) co_return std::nullopt;
  auto small = co_await request.body->take_small();
  if (!small) co_return body_refusal(request, small.error());
  http::ClientRequest& out = request.judged.request;
  for (const auto& credential : request.body->swapped()) note_use(request.judged, credential);
  out.trailers = [&request] { return request.trailers; };
  if (*small) {
    if (!sandbox_->spend((*small)->size())) co_return budget_spent();
    if (auto refusal = take_trailers(request)) co_return refusal;
    if (request.trailers.empty()) {
      out.body = std::move(**small);
      co_return std::nullopt;
    }
    request.held_body = std::move(**small);
    out.body_source = [this, &request] { return next_held(request); };
    co_return std::nullopt;
  }
  out.body_source = [this, &request] { return next_piece(request); };
  if (head.framing == http::BodyFraming::kLength) out.body_bytes = head.content_length;
  co_return std::nullopt;
}

Task<Result<std::string_view>> Relay::next_piece(Case& request) {
  CO_TRY(const std::string_view piece, co_await request.body->next());
  request.over_budget = !sandbox_->spend(piece.size());
  if (request.over_budget)
    co_return make_error(ErrorCode::kLimit, "send request body", "the budget is spent");
  if (piece.empty()) request.trailers_refusal = take_trailers(request);
  if (request.trailers_refusal)
    co_return make_error(ErrorCode::kDenied, "send request body", "its trailers must not leave");
  co_return piece;
}

// A body that is here already, but whose end is marked by what follows it.
Task<Result<std::string_view>> Relay::next_held(Case& request) {
  request.sent_body = std::exchange(request.held_body, {});
  co_return std::string_view(request.sent_body);
}

std::optional<Refusal> Relay::take_trailers(Case& request) {
  auto trailers = judge_trailers(boundary_, *sandbox_, request.judged, request.origin,
                                 request.exchange.trailers());
  if (!trailers) return trailers.error();
  std::uint64_t bytes = 0;
  for (const auto& [name, value] : *trailers) bytes += name.size() + value.size();
  if (!sandbox_->spend(bytes)) return budget_spent();
  request.trailers = std::move(*trailers);
  return std::nullopt;
}

Refusal Relay::body_refusal(const Case& request, const Error& error) const {
  if (request.over_budget) return budget_spent();
  if (request.trailers_refusal) return *request.trailers_refusal;
  if (request.body->finding())
    return found_in(request.judged, boundary_, *sandbox_, *request.body->finding(), request.origin,
                    "body");
  if (request.body->has_foreign_credential()) return foreign_credential();
  if (request.body->is_undecodable())
    return {.code = "undecodable_body",
            .reason = "the body, or a message in it, is not coded as it says",
            .hint = "send it without coding",
            .rule = {}};
  return {.status = error.code == ErrorCode::kLimit ? 413 : 400,
          .code = "malformed_request",
          .reason = "the body could not be read",
          .hint = "send all of it",
          .rule = {}};
}

// What was judged a moment ago may have been revoked since.
bool Relay::still_holds(std::uint64_t policy_generation, const Judged& judged) const {
  if (sandbox_->policy->generation() != policy_generation) return false;
  return std::ranges::all_of(judged.used,
                             [&](const auto& credential) {
                               const auto now =
                                   find_credential(boundary_, *sandbox_, credential->name);
                               return now && is_same_use(*now, *credential);
                             }) &&
         std::ranges::all_of(judged.own_used, [&](const auto& secret) {
           return boundary_.project_secrets->find_named(secret->project, secret->name) == secret;
         });
}

Task<std::optional<Refusal>> Relay::send(Case& request, Upstream& upstream) {
  const auto holds = [this, &request] {
    return still_holds(request.policy_generation, request.judged);
  };
  upstream.refusal.reset();
  if (version_ == Version::kHttp1) upstream.still_holds = holds;
  const auto link = co_await link_to(upstream);
  if (!link) co_return link.error();
  if (!holds()) co_return rules_changed();
  request.underway = record_beginning(boundary_, *sandbox_, describe(request));
  request.has_left = true;
  auto answer = co_await (*link)->send(std::move(request.judged.request));
  // Judged under rules that are no more: the answer is not delivered under new ones.
  if (answer && !holds()) co_return rules_changed();
  if (answer) co_return co_await deliver(request, **answer);
  if (request.is_stopped()) co_return body_refusal(request, answer.error());
  if (upstream.refusal) {
    request.has_left = false;  // nobody was reached
    co_return *upstream.refusal;
  }
  co_return cut_short("upstream_failed", "the host did not answer properly");
}

Task<std::optional<Refusal>> Relay::deliver(Case& request, http::UpstreamAnswer& answer) {
  auto filter = AnswerFilter::open(boundary_, *sandbox_, request.judged, answer.head());
  if (!filter) co_return filter.error();
  const auto left = [] { return cut_short("client_left", "the client left"); };
  const auto broken = [] { return cut_short("upstream_cut", "the host ended in the middle"); };
  const auto has_secret = [] { return cut_short("secret_in_answer", "the answer holds a secret"); };
  request.answer_begun = true;
  http::Response head = filter->take_head();
  // What came with the head leaves with it.
  const auto first = filter->unpacks() ? std::string_view() : answer.take_ready_body();
  if (!first) co_return broken();
  if (!filter->feed(*first, head.body)) co_return has_secret();
  request.bytes_back = head.body.size();
  if (!co_await request.exchange.start(std::move(head))) co_return left();
  std::string ready;
  for (;;) {
    const auto piece = co_await answer.read_body();
    // Over HTTP/2 the request may still be on its way, and be what ends it.
    if (!piece && request.is_stopped()) co_return body_refusal(request, piece.error());
    if (!piece) co_return broken();
    if (piece->empty()) break;
    const auto passed = co_await deliver_piece(request, *filter, *piece, ready);
    if (!passed && passed.error().code == ErrorCode::kDenied) co_return has_secret();
    if (!passed) co_return left();
  }
  ready.clear();
  const auto ended = filter->finish(ready);
  request.scrubbed = filter->has_scrubbed();
  if (!ended) co_return has_secret();
  request.bytes_back += ready.size();
  http::OwnedFields trailers;
  for (const auto& [name, value] : answer.trailers()) {
    auto clean_name = filter->clean_name(name);
    auto clean_value = filter->clean(value);
    if (!clean_name || !clean_value) co_return has_secret();
    if (!is_hop_field(name)) trailers.emplace_back(std::move(*clean_name), std::move(*clean_value));
  }
  if (!trailers.empty()) request.exchange.set_trailers(std::move(trailers));
  request.scrubbed = filter->has_scrubbed();
  if (!co_await request.exchange.finish(ready)) co_return left();
  co_return std::nullopt;
}

// kDenied: it holds a secret. Any other error: the client left. `ready` is there to be used again.
Task<Result<void>> Relay::deliver_piece(Case& request, AnswerFilter& filter, std::string_view piece,
                                        std::string& ready) {
  ready.clear();
  while (!piece.empty()) {
    const std::string_view slice = piece.substr(0, filter.slice_bytes());
    piece.remove_prefix(slice.size());
    request.turn.begin();
    const std::size_t before = ready.size();
    const auto passed = filter.feed(slice, ready);
    request.scrubbed = filter.has_scrubbed();
    if (!passed) co_return make_error(ErrorCode::kDenied, "deliver answer", "it holds a secret");
    request.bytes_back += ready.size() - before;
    if (request.turn.is_over()) co_await boundary_.loop.next_round();
    if (ready.empty() || (!piece.empty() && ready.size() < kReadyBytes)) continue;
    if (!co_await request.exchange.write(ready))
      co_return make_error(ErrorCode::kUnavailable, "deliver answer", "the client left");
    ready.clear();
  }
  co_return Result<void>();
}

// ---- the world

Relay::Upstream& Relay::upstream_for(const Origin& origin) {
  const std::string name = to_text(origin);
  if (const auto found = upstreams_.find(name); found != upstreams_.end()) return found->second;
  if (upstreams_.size() >= kUpstreamsMax) upstreams_.clear();
  return upstreams_.try_emplace(name, origin).first->second;
}

std::string Relay::host_field(const Origin& origin) {
  return origin.port == (origin.tls ? 443 : 80) ? to_text(origin.host) : to_text(origin);
}

http::Connector Relay::connector_to(Upstream& upstream) {
  return [this, &upstream](TimePoint) { return connect_to(upstream); };
}

Task<Result<std::unique_ptr<http::Transport>>> Relay::connect_to(Upstream& upstream) {
  if (upstream.ready != nullptr) co_return std::move(upstream.ready);
  if (is_answered_here(upstream.origin.host)) {  // but for what the brain answers
    CO_TRY(auto socket, roles::dial(boundary_.brain_channel));
    co_return http::create_plain_transport(boundary_.loop, std::move(socket));
  }
  auto made = co_await connect_upstream(boundary_, sandbox_, upstream.origin, {"http/1.1"});
  // The last look before the first byte.
  if (made && !upstream.still_holds())
    co_return make_error(ErrorCode::kDenied, "connect upstream", "the rules changed");
  if (made) co_return std::move(made->transport);
  upstream.refusal = made.error();
  co_return make_error(ErrorCode::kUnavailable, "connect upstream", made.error().code);
}

Task<std::expected<std::shared_ptr<http::UpstreamLink>, Refusal>> Relay::link_to(
    Upstream& upstream) {
  if (version_ == Version::kHttp1) {
    if (upstream.link == nullptr)
      upstream.link = http::link_over_http1(boundary_.loop, connector_to(upstream),
                                            host_field(upstream.origin), kUpstreamLimits);
    co_return upstream.link;
  }
  // Streams share one connection; whoever finds it gone makes the next, and the others wait.
  while (const auto connecting = upstream.connecting) co_await connecting->wait(kNever);
  if (upstream.link != nullptr && upstream.link->is_usable()) co_return upstream.link;
  std::unique_ptr<http::Transport> transport = std::move(upstream.ready);
  if (transport == nullptr) {
    struct Connecting {
      Upstream& upstream;
      ~Connecting() { std::exchange(upstream.connecting, nullptr)->set(); }
    };
    upstream.connecting = std::make_shared<linux::Event>(boundary_.loop);
    const Connecting connecting{upstream};
    auto made = co_await connect_upstream(boundary_, sandbox_, upstream.origin, {"h2"});
    if (!made) co_return std::unexpected(made.error());
    if (upstream.origin.tls && made->protocol != "h2")
      co_return std::unexpected(cut_short("upstream_failed", "the host no longer speaks HTTP/2"));
    transport = std::move(made->transport);
  }
  auto link = link_over_http2(upstream.origin, std::move(transport));
  if (link) upstream.link = *link;
  co_return link;
}

// What the host may send before the client takes it counts as a body under way, for as long as the
// connection stands: a client that shuts its windows on many connections holds no more than others.
std::expected<std::shared_ptr<http::UpstreamLink>, Refusal> Relay::link_over_http2(
    const Origin& origin, std::unique_ptr<http::Transport> transport) {
  struct Held {
    BodyMemory memory;
    std::unique_ptr<http::UpstreamLink> link;
  };
  constexpr std::size_t kStreamWindowMax = 1024 * 1024;
  const std::uint64_t window = answer_window(boundary_, *sandbox_);
  auto memory = take_body_memory(boundary_, *sandbox_, window);
  if (!memory) return std::unexpected(memory.error());
  http::Http2Limits limits = http::Http2Limits::for_client();
  limits.first_byte_time = kUpstreamLimits.first_byte_time;
  limits.body_idle_time = kUpstreamLimits.idle_time;
  limits.connection_window = window;
  limits.stream_window = std::min(limits.connection_window, kStreamWindowMax);
  limits.queue_bytes = kStreamQueueBytes;
  auto held = std::make_shared<Held>(
      Held{.memory = std::move(*memory),
           .link = http::link_over_http2(boundary_.loop, std::move(transport), host_field(origin),
                                         origin.tls ? "https" : "http", limits)});
  return std::shared_ptr<http::UpstreamLink>(held, held->link.get());
}

audit::Decision Relay::describe(const Case& request) const {
  const http::RequestHead& head = request.exchange.request();
  return {.sandbox = {},
          .session = {},
          .code = {},
          .rule = request.judged.rule,
          .method = std::string(head.method),
          .host = to_text(request.origin.host),
          .port = request.origin.port,
          .protocol = version_ == Version::kHttp2 ? "h2" : "http/1.1",
          .path = std::string(head.path()),
          .credentials = request.judged.credentials,
          .bytes_in = request.body ? request.body->bytes() : 0,
          .bytes_out = request.bytes_back,
          .request_id = request.id};
}

void Relay::record(const Case& request, audit::Verdict verdict, std::string_view code,
                   std::string_view rule) {
  audit::Decision decision = describe(request);
  decision.verdict = verdict;
  decision.code = code;
  decision.rule = rule;
  record_decision(boundary_, *sandbox_, std::move(decision));
}

}  // namespace pons::egress
