#include <algorithm>

#include "decision_record.h"
#include "pons/base/text.h"
#include "pons/http/websocket_pair.h"
#include "pons/scan/scanner.h"
#include "relay_case.h"

namespace pons::egress {

namespace {

constexpr std::uint16_t kPolicyViolation = 1008;
constexpr std::uint16_t kGone = 1001;
constexpr Duration kGoodbyeTime = std::chrono::seconds(2);

struct Pumps {
  AttachedSandbox& sandbox;
  http::WebSocket& inside;
  http::WebSocket& outside;
  linux::Event over;
  http::Silence silence;
  std::optional<Refusal> refusal;
  std::uint64_t bytes_in = 0;
  bool scrubbed = false;
  std::optional<scan::Finding> inert;  // a stub that passed as it is
};

bool is_offered(std::string_view protocol, std::string_view offered) {
  return std::ranges::any_of(split(offered, ','),
                             [&](std::string_view one) { return trim(one) == protocol; });
}

// Whole messages, however they were cut into frames: nothing passes by being fragmented or binary.
Task<> pump_out(Pumps& pumps, const Judged& judged, auto refusal_for) {
  for (;;) {
    const auto message = co_await http::next_message(pumps.inside, pumps.silence);
    if (!message) break;
    if (!judged.tolerated.empty() && !pumps.inert)
      pumps.inert = scan::scan_text(judged.tolerated, message->payload);
    if (const auto finding = scan::scan_text(judged.forbidden, message->payload))
      pumps.refusal = refusal_for(*finding);
    else if (!pumps.sandbox.spend(message->payload.size()))
      pumps.refusal = budget_spent();
    if (pumps.refusal) {
      (void)co_await pumps.inside.close(kPolicyViolation, pumps.refusal->code);
      break;
    }
    if (!co_await http::pass_on(*message, pumps.outside)) break;
  }
  pumps.over.set();
}

Task<> pump_in(Pumps& pumps, AnswerFilter& filter) {
  for (;;) {
    auto message = co_await http::next_message(pumps.outside, pumps.silence);
    if (!message) break;
    if (!filter.pass_message(message->payload)) {
      pumps.refusal = cut_short("secret_in_answer", "a message holds a secret");
      break;
    }
    pumps.scrubbed = filter.has_scrubbed();
    pumps.bytes_in += message->payload.size();
    if (!co_await http::pass_on(*message, pumps.inside)) break;
  }
  pumps.over.set();
}

// What the client still sends is dropped: a socket that is closed on it would take the reason
// along.
Task<> say_goodbye(linux::Loop& loop, http::WebSocket& client) {
  (void)co_await client.close(kGone, "");
  const TimePoint deadline = loop.now() + kGoodbyeTime;
  for (;;) {
    const auto message = co_await client.receive(deadline);
    if (!message || !*message) co_return;
  }
}

// Words that were no messages. The socket that got them knows at once, whoever else ends first.
std::optional<Refusal> find_fault(const Pumps& pumps) {
  if (pumps.refusal) return pumps.refusal;
  if (pumps.outside.has_refused_peer())
    return cut_short("upstream_failed", "the host sent what is no WebSocket message");
  if (!pumps.inside.has_refused_peer()) return std::nullopt;
  return Refusal{.status = 400,
                 .code = "malformed_request",
                 .reason = "what was sent is no WebSocket message, or too large a one",
                 .hint = "send whole messages without extensions",
                 .rule = {}};
}

}  // namespace

Task<std::optional<Refusal>> Relay::carry_websocket(Case& request, Upstream& upstream) {
  const http::RequestHead& head = request.exchange.request();
  if (version_ != Version::kHttp1 ||
      !equal_ignoring_case(head.find("upgrade").value_or(""), "websocket"))
    co_return Refusal{.status = 400,
                      .code = "unknown_upgrade",
                      .reason = "only WebSocket can be upgraded to",
                      .hint = "stay with HTTP",
                      .rule = {}};
  const auto holds = [this, &request] {
    return still_holds(request.policy_generation, request.judged);
  };
  upstream.refusal.reset();
  upstream.still_holds = holds;
  http::OwnedFields fields = std::move(request.judged.request.fields);
  if (const auto offered = head.find("sec-websocket-protocol"))
    fields.emplace_back("Sec-WebSocket-Protocol", *offered);
  const http::WebSocketLimits limits{.message_bytes = limits_.message_bytes};
  http::Client client(boundary_.loop, connector_to(upstream), host_field(request.origin));
  request.underway = record_beginning(boundary_, *sandbox_, describe(request));
  request.has_left = true;
  auto outside =
      co_await client.open_websocket(request.judged.request.target, std::move(fields), limits);
  if (!outside && upstream.refusal) {
    request.has_left = false;  // nobody was reached
    co_return *upstream.refusal;
  }
  if (!outside) co_return cut_short("upstream_failed", "the host did not open a WebSocket");
  if (!holds()) co_return rules_changed();
  // What the host chose is its own words, unless it is among what was offered.
  const std::string chosen = (*outside)->subprotocol();
  if (!chosen.empty() && !is_offered(chosen, head.find("sec-websocket-protocol").value_or("")))
    co_return cut_short("upstream_failed", "the host chose a protocol that was not offered");
  const http::ResponseHead no_head;
  auto filter = AnswerFilter::open(boundary_, *sandbox_, request.judged, no_head);
  if (!filter) co_return filter.error();
  auto inside = co_await request.exchange.accept_websocket(limits, chosen);
  request.answer_begun = true;
  if (!inside) co_return std::nullopt;  // the client was told why
  Pumps pumps{.sandbox = *sandbox_,
              .inside = **inside,
              .outside = **outside,
              .over = linux::Event(boundary_.loop),
              .silence = {boundary_.loop, limits_.message_idle, boundary_.loop.now()},
              .refusal = {}};
  {
    linux::TaskGroup group(boundary_.loop);
    group.spawn(pump_out(pumps, request.judged, [&](const scan::Finding& finding) {
      return found_in(request.judged, boundary_, *sandbox_, finding, request.origin, "message");
    }));
    group.spawn(pump_in(pumps, *filter));
    co_await pumps.over.wait(kNever);
  }
  (void)co_await (*outside)->close(kGone, "");
  co_await say_goodbye(boundary_.loop, **inside);
  request.bytes_back = pumps.bytes_in;
  request.scrubbed = pumps.scrubbed;
  if (pumps.inert && request.judged.inert.empty())
    request.judged.inert = request.judged.stub_owners->at(pumps.inert->id);
  co_return find_fault(pumps);
}

}  // namespace pons::egress
