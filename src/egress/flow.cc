#include "flow.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "body_memory.h"
#include "decision_record.h"
#include "judge.h"
#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/egress/dns_responder.h"
#include "pons/http/http2.h"
#include "pons/http/server.h"
#include "relay.h"
#include "splice.h"
#include "upstream.h"

namespace pons::egress {

namespace {

constexpr std::uint16_t kProxyPort = 3128;
constexpr std::uint16_t kNamesPort = 53;
constexpr Duration kGreetingTime = std::chrono::seconds(15);
constexpr Duration kHandshakeTime = std::chrono::seconds(15);
constexpr Duration kIdleTime = std::chrono::minutes(15);
constexpr std::uint64_t kBodyBytesMax = 1ULL << 44;

// Of a request that names no host that could be understood.
const Origin kNowhere{names::IpAddress::from_v4(0), 0};

Refusal malformed(int status, std::string_view reason) {
  return {.status = status,
          .code = "malformed_request",
          .reason = std::string(reason),
          .hint = "send it as a browser or curl would",
          .rule = {}};
}

http::ServerLimits relay_limits() {
  return {.head = {.bytes = 64 * 1024, .fields = 100, .target_bytes = 32 * 1024},
          .body_bytes = kBodyBytesMax,
          .header_time = std::chrono::seconds(30),
          .idle_time = std::chrono::minutes(5),
          .body_idle_time = std::chrono::minutes(5),
          .write_stall = std::chrono::minutes(5)};
}

http::Http2Limits http2_limits() {
  const http::ServerLimits common = relay_limits();
  http::Http2Limits limits;
  limits.head = common.head;
  limits.body_bytes = common.body_bytes;
  limits.connection_window = 256 * 1024;
  limits.queue_bytes = kStreamQueueBytes;
  limits.idle_time = common.idle_time;
  limits.body_idle_time = common.body_idle_time;
  limits.write_stall = common.write_stall;
  return limits;
}

std::string_view to_string(Relay::Version version) {
  return version == Relay::Version::kHttp2 ? "h2" : "http/1.1";
}

bool offers(const http::ClientHello& hello, std::string_view protocol) {
  return std::ranges::find(hello.protocols, protocol) != hello.protocols.end();
}

// The one that every tool shows, unless the client speaks only the other.
Relay::Version version_for_refusal(const http::ClientHello& hello) {
  return offers(hello, "h2") && !offers(hello, "http/1.1") ? Relay::Version::kHttp2
                                                           : Relay::Version::kHttp1;
}

Refusal not_spoken() {
  return {.status = 502,
          .code = "upstream_failed",
          .reason = "the host speaks no protocol that the client offers",
          .hint = "offer HTTP/1.1",
          .rule = {}};
}

}  // namespace

Flow::Flow(Boundary& boundary, std::shared_ptr<AttachedSandbox> sandbox, linux::UniqueFd socket,
           linux::Watch watch)
    : boundary_(boundary),
      sandbox_(std::move(sandbox)),
      socket_(std::move(socket)),
      watch_(std::move(watch)) {}

// ---- where to

Task<> Flow::run() {
  const auto destination = original_destination(socket_.get());
  if (!destination) co_return;
  if (destination->port == kNamesPort) co_return co_await serve_names();
  const bool is_direct = names::classify(destination->address) == names::AddressClass::kLoopback;
  if (is_direct && destination->port == kProxyPort) co_return co_await serve_proxy();
  auto origin = find_origin(*destination);
  if (!origin) co_return co_await refuse({destination->address, destination->port}, origin.error());
  co_await carry(*origin);
}

std::expected<Origin, Refusal> Flow::find_origin(const OriginalDestination& destination) {
  if (!SyntheticAddresses::is_synthetic(destination.address))
    return Origin{destination.address, destination.port};
  const auto name = sandbox_->names.find(destination.address);
  if (!name)
    return std::unexpected(Refusal{.code = "address_unknown",
                                   .reason = "no name has this address",
                                   .hint = "look the name up again",
                                   .rule = {}});
  hold_ = sandbox_->names.hold(*name, boundary_.loop.now());
  return Origin{*name, destination.port};
}

// ---- the proxy, for programs that want one

Task<> Flow::serve_proxy() {
  const auto greeting =
      co_await sniff(*watch_, socket_.get(), boundary_.loop.now() + kGreetingTime);
  if (!greeting || !std::holds_alternative<PlainHttp>(*greeting)) co_return;
  std::array<char, 8> first;
  const ssize_t got = recv(socket_.get(), first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got > 0 && std::string_view(first.data(), static_cast<std::size_t>(got)) == "CONNECT ")
    co_return co_await serve_connect_request();
  auto client = take_socket();
  if (client) co_await relay(std::move(*client), std::nullopt, nullptr);
}

// Reads exactly the head: what follows is the tunnel's.
Task<> Flow::serve_connect_request() {
  std::string buffer(16 * 1024, '\0');
  http::RequestHead head;
  const TimePoint deadline = boundary_.loop.now() + kGreetingTime;
  for (;;) {
    const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) co_return;
    std::size_t scanned = 0;
    const auto parsed = http::parse_request_head(
        {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))}, scanned, {}, head);
    if (parsed.state == http::HeadParse::State::kRefused) {
      co_return co_await refuse_connect(kNowhere, malformed(parsed.status, parsed.reason));
    }
    if (parsed.state == http::HeadParse::State::kDone) {
      if (recv(socket_.get(), buffer.data(), parsed.head_bytes, 0) !=
          static_cast<ssize_t>(parsed.head_bytes))
        co_return;
      break;
    }
    if (co_await watch_->readable(deadline) == linux::Wait::kTimeout || watch_->hung_up())
      co_return;
  }
  const std::size_t colon = head.target.rfind(':');
  const auto port = parse_decimal(head.target.substr(std::min(colon, head.target.size() - 1) + 1));
  const auto host = parse_destination(head.target.substr(0, colon));
  if (!host || !port || *port == 0 || *port > 65'535)
    co_return co_await refuse_connect(kNowhere, malformed(400, "CONNECT target is not host:port"));
  const Origin origin{*host, static_cast<std::uint16_t>(*port)};
  Decision decision = sandbox_->policy->judge_connect(origin.host, origin.port);
  if (decision.allowed()) {
    if (const auto* name = std::get_if<names::HostName>(&origin.host)) {
      // A name that did not come by DNS counts like one that did.
      if (!is_built_in(*name) &&
          !sandbox_->names.assign(*name, decision.breadth, boundary_.loop.now()))
        decision.reason = Reason::kTooManyNames;
      hold_ = sandbox_->names.hold(*name, boundary_.loop.now());
    }
  }
  if (!decision.allowed())
    co_return co_await refuse_connect(
        origin, refusal_of(decision, origin, boundary_.access, sandbox_->key));
  constexpr std::string_view kEstablished = "HTTP/1.1 200 Connection established\r\n\r\n";
  if (send(socket_.get(), kEstablished.data(), kEstablished.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(kEstablished.size()))
    co_return;
  co_await carry(origin);
}

// Its head is read already, or cannot be.
Task<> Flow::refuse_connect(Origin origin, Refusal refusal) {
  ++sandbox_->traffic.refused;
  record(origin, audit::Verdict::kBlock, "connect", refusal.code, refusal.rule);
  auto client = take_socket();
  if (!client) co_return;
  const http::Response response =
      to_response(refusal, to_text(origin.host), "req_" + random_text(20));
  const std::string text = fmt::format(
      "HTTP/1.1 {} Refused\r\nContent-Type: application/json\r\nX-Pons-Refused: {}\r\n"
      "Connection: close\r\nContent-Length: {}\r\n\r\n{}",
      refusal.status, refusal.code, response.body.size(), response.body);
  iovec span = http::to_iovec(text);
  (void)co_await http::write_all(**client, {&span, 1}, kGreetingTime);
  std::array<char, 512> scratch;
  co_await http::close_gently(**client, scratch);
}

// ---- may it, and what is it

bool Flow::must_look_into(const Origin& origin) const {
  const auto* name = std::get_if<names::HostName>(&origin.host);
  return (name != nullptr && is_built_in(*name)) ||
         sandbox_->policy->needs_inspection(origin.host, origin.port) ||
         is_bound(boundary_, *sandbox_, origin.host) ||
         boundary_.sent_secrets.contains(sandbox_->policy->project(), origin.host);
}

Task<> Flow::carry(Origin origin) {
  const Decision decision = sandbox_->policy->judge_connect(origin.host, origin.port);
  if (!decision.allowed())
    co_return co_await refuse(origin,
                              refusal_of(decision, origin, boundary_.access, sandbox_->key));
  // Some protocols begin with the server's words: there is nothing to wait for.
  if (!is_answered_here(origin.host) && !is_bound(boundary_, *sandbox_, origin.host, origin.port) &&
      !boundary_.sent_secrets.contains(sandbox_->policy->project(), origin.host, origin.port) &&
      sandbox_->policy->allows_opaque(origin.host, origin.port))
    co_return co_await pass_through(origin, "tcp");
  auto greeting = co_await sniff(*watch_, socket_.get(), boundary_.loop.now() + kGreetingTime);
  if (!greeting) co_return;
  if (auto* hello = std::get_if<http::ClientHello>(&*greeting))
    co_return co_await carry_tls(origin, std::move(*hello));
  if (std::holds_alternative<PlainHttp>(*greeting)) co_return co_await carry_http(origin);
  if (std::holds_alternative<PlainHttp2>(*greeting)) co_return co_await carry_http2(origin);
  record(origin, audit::Verdict::kDrop, "tcp", "unknown_protocol", "");
}

// The name in the greeting, the name that was looked up, and later the host's certificate: one and
// the same.
std::optional<Refusal> Flow::check_greeting(const Origin& origin,
                                            const http::ClientHello& hello) const {
  const auto mismatch = [](std::string reason) {
    return Refusal{.code = "sni_host_mismatch",
                   .reason = std::move(reason),
                   .hint = "connect by name, with that name as the TLS server name",
                   .rule = {}};
  };
  const auto* name = std::get_if<names::HostName>(&origin.host);
  if (name == nullptr) {
    if (hello.server_name) return mismatch("an address has no TLS server name");
    if (!is_nameless(origin, *sandbox_->policy)) return std::nullopt;
    return refusal_of({.reason = Reason::kAddressNotAllowed}, origin);
  }
  if (!hello.server_name) return mismatch("the TLS greeting names no host");
  const auto said = names::HostName::parse(*hello.server_name);
  if (!said || *said != *name) return mismatch("the TLS greeting names another host");
  return std::nullopt;
}

Task<> Flow::carry_tls(Origin origin, http::ClientHello hello) {
  origin.tls = true;
  if (auto refusal = check_greeting(origin, hello)) co_return co_await refuse(origin, *refusal);
  // A greeting with an encrypted part may mean another host than it names: ended here, it cannot.
  // And a host that gets a secret on one port may show it on another.
  if (must_look_into(origin) || hello.has_encrypted_hello)
    co_return co_await end_tls(origin, std::move(hello));
  co_await pass_through(origin, "tls");
}

Task<> Flow::end_tls(Origin origin, http::ClientHello hello) {
  std::vector<std::string> offered;
  for (const char* protocol : {"h2", "http/1.1"})
    if (offers(hello, protocol)) offered.emplace_back(protocol);
  // The host chooses first, so that the client gets exactly what the host speaks.
  auto upstream = co_await connect_upstream(boundary_, sandbox_, origin, offered);
  const std::string spoken =
      upstream && !upstream->protocol.empty() ? upstream->protocol : "http/1.1";
  if (upstream && !hello.protocols.empty() && !offers(hello, spoken))
    upstream = std::unexpected(not_spoken());
  const Version version =
      upstream ? (spoken == "h2" ? Version::kHttp2 : Version::kHttp1) : version_for_refusal(hello);
  auto client = co_await accept_tls(to_text(origin.host), hello, version);
  if (!client) {
    record(origin, audit::Verdict::kDrop, "tls", client.error(), "");
    co_return;
  }
  if (!upstream)
    co_return co_await answer_refused(std::move(*client), origin, upstream.error(), version);
  co_await relay(std::move(*client), origin, std::move(upstream->transport), version);
}

// The certificate that the client expects. The error is for the record.
Task<std::expected<std::unique_ptr<http::Transport>, const char*>> Flow::accept_tls(
    std::string name, const http::ClientHello& hello, Version version) {
  const auto identity = boundary_.leaves.find_or_sign(name);
  if (!identity) co_return std::unexpected("no_certificate");
  const std::string protocol(to_string(version));
  watch_.reset();
  auto client = co_await http::accept_tls(
      boundary_.loop, std::move(socket_),
      http::TlsAccept{.context = boundary_.server_tls,
                      .identity = *identity,
                      .first_bytes = {},
                      .protocol = offers(hello, protocol) ? protocol : ""},
      boundary_.loop.now() + kHandshakeTime);
  if (!client) co_return std::unexpected("client_tls");
  co_return std::move(*client);
}

Task<> Flow::carry_http(Origin origin) {
  auto client = take_socket();
  if (client) co_await relay(std::move(*client), origin, nullptr);
}

// Without TLS nothing can be agreed on: whoever begins like this knows that the host speaks it.
Task<> Flow::carry_http2(Origin origin) {
  auto upstream = co_await connect_upstream(boundary_, sandbox_, origin, {});
  auto client = take_socket();
  if (!client) co_return;
  if (!upstream)
    co_return co_await answer_refused(std::move(*client), origin, upstream.error(),
                                      Version::kHttp2);
  co_await relay(std::move(*client), origin, std::move(upstream->transport), Version::kHttp2);
}

// ---- then

Task<> Flow::relay(std::unique_ptr<http::Transport> client, std::optional<Origin> origin,
                   std::unique_ptr<http::Transport> ready, Version version) {
  Relay relay(boundary_, sandbox_, origin, std::move(ready), version);
  co_await serve(std::move(client), std::move(origin), version,
                 [&relay](http::Exchange& exchange) { return relay.handle(exchange); });
}

Task<> Flow::serve(std::unique_ptr<http::Transport> client, std::optional<Origin> origin,
                   Version version, http::Handler handler) {
  http::Refuser refuser = refuser_for(origin, version);
  if (version == Version::kHttp2)
    co_return co_await http::serve_http2(
        boundary_.loop, std::move(client), {.role = "sandbox"}, http2_limits(), std::move(handler),
        origin && origin->tls ? "https" : "http", std::move(refuser));
  http::Server server(boundary_.loop, relay_limits(), std::move(handler));
  server.set_refuser(std::move(refuser));
  co_await server.serve_here(std::move(client), {.role = "sandbox"});
}

// What is no request is a decision, too, and its sender may be an agent that can learn.
http::Refuser Flow::refuser_for(std::optional<Origin> origin, Version version) {
  return [this, origin = origin.value_or(kNowhere), version](int status, std::string_view reason) {
    ++sandbox_->traffic.refused;
    const Refusal refusal = malformed(status, reason);
    record(origin, audit::Verdict::kBlock, to_string(version), refusal.code, refusal.rule);
    return to_response(refusal, to_text(origin.host), "req_" + random_text(20));
  };
}

Task<> Flow::pass_through(Origin origin, std::string_view protocol) {
  ++sandbox_->traffic.requests;  // how many are in it nobody can tell
  if (sandbox_->has_spent_all()) co_return co_await refuse(origin, budget_spent());
  auto upstream = co_await dial_upstream(boundary_, sandbox_, origin);
  if (!upstream) co_return co_await refuse(origin, upstream.error());
  auto outside = http::create_plain_transport(boundary_.loop, std::move(*upstream));
  auto inside = take_socket();
  if (!outside || !inside) co_return;
  // Before the first byte: whatever ends this later, the decision is known.
  record(origin, audit::Verdict::kAllow, protocol, "", "");
  (void)boundary_.audit.write_buffer();  // a failure is told by the next flush
  co_await splice(
      boundary_.loop, **inside, **outside,
      [&](std::size_t bytes) { return sandbox_->spend(bytes); }, kIdleTime);
}

// A client that speaks HTTP learns why; any other is cut off.
Task<> Flow::refuse(Origin origin, Refusal refusal) {
  ++sandbox_->traffic.refused;
  auto greeting = co_await sniff(*watch_, socket_.get(), boundary_.loop.now() + kGreetingTime);
  if (!greeting) {
    record(origin, audit::Verdict::kDrop, "tcp", refusal.code, refusal.rule);
    co_return;
  }
  if (const auto* hello = std::get_if<http::ClientHello>(&*greeting)) {
    // Without a usable name of its own, the client is shown the one that it dialled.
    const auto name = names::HostName::parse(hello->server_name.value_or(""));
    const Version version = version_for_refusal(*hello);
    auto client = co_await accept_tls(name ? name->text() : to_text(origin.host), *hello, version);
    origin.tls = true;
    if (client) co_return co_await answer_refused(std::move(*client), origin, refusal, version);
  } else if (!std::holds_alternative<UnknownProtocol>(*greeting)) {
    const bool http2 = std::holds_alternative<PlainHttp2>(*greeting);
    auto client = take_socket();
    if (client)
      co_return co_await answer_refused(std::move(*client), origin, refusal,
                                        http2 ? Version::kHttp2 : Version::kHttp1);
  }
  record(origin, audit::Verdict::kDrop, "tcp", refusal.code, refusal.rule);
}

Task<> Flow::answer_refused(std::unique_ptr<http::Transport> client, Origin origin, Refusal refusal,
                            Version version) {
  co_await serve(std::move(client), origin, version, [&](http::Exchange& exchange) {
    return answer_with(exchange, origin, refusal, version);
  });
}

Task<> Flow::answer_with(http::Exchange& exchange, const Origin& origin, const Refusal& refusal,
                         Version version) {
  record(origin, audit::Verdict::kBlock, to_string(version), refusal.code, refusal.rule);
  exchange.respond(to_response(refusal, to_text(origin.host), "req_" + random_text(20)));
  co_return;
}

Result<std::unique_ptr<http::Transport>> Flow::take_socket() {
  watch_.reset();
  return http::create_plain_transport(boundary_.loop, std::move(socket_));
}

void Flow::record(const Origin& origin, audit::Verdict verdict, std::string_view protocol,
                  std::string_view code, std::string_view rule) {
  record_decision(boundary_, *sandbox_,
                  {.verdict = verdict,
                   .sandbox = {},
                   .session = {},
                   .code = std::string(code),
                   .rule = std::string(rule),
                   .method = {},
                   .host = to_text(origin.host),
                   .port = origin.port,
                   .protocol = std::string(protocol),
                   .path = {},
                   .credentials = {},
                   .request_id = {}});
}

}  // namespace pons::egress
