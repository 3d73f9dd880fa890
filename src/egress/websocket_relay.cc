#include <algorithm>

#include "pons/base/text.h"
#include "pons/scan/scanner.h"
#include "relay_case.h"

namespace pons::egress {

namespace {

constexpr std::uint16_t kPolicyViolation = 1008;
constexpr std::uint16_t kGone = 1001;

using Message = http::WebSocketMessage;

Task<Result<void>> pass_on(http::WebSocket& to, const Message& message) {
  return message.kind == Message::Kind::kText ? to.send_text(message.payload)
                                              : to.send_binary(message.payload);
}

struct Pumps {
  AttachedSandbox& sandbox;
  http::WebSocket& inside;
  http::WebSocket& outside;
  linux::Event over;
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
    const auto message = co_await pumps.inside.receive(kNever);
    if (!message || !*message) break;
    if (const auto finding = scan::scan_text(judged.forbidden, (*message)->payload)) {
      pumps.refusal = refusal_for(*finding);
      (void)co_await pumps.inside.close(kPolicyViolation, pumps.refusal->code);
      break;
    }
    if (!judged.tolerated.empty() && !pumps.inert)
      pumps.inert = scan::scan_text(judged.tolerated, (*message)->payload);
    if (!pumps.sandbox.spend((*message)->payload.size())) {
      pumps.refusal = budget_spent();
      (void)co_await pumps.inside.close(kPolicyViolation, pumps.refusal->code);
      break;
    }
    if (!co_await pass_on(pumps.outside, **message)) break;
  }
  pumps.over.set();
}

Task<> pump_in(Pumps& pumps, AnswerFilter& filter) {
  for (;;) {
    auto message = co_await pumps.outside.receive(kNever);
    if (!message || !*message) break;
    if (!filter.pass_message((*message)->payload)) {
      pumps.refusal = Refusal{.status = 502,
                              .code = "secret_in_answer",
                              .reason = "a message holds a secret",
                              .hint = "try again",
                              .rule = {}};
      break;
    }
    pumps.scrubbed = filter.has_scrubbed();
    pumps.bytes_in += (*message)->payload.size();
    if (!co_await pass_on(pumps.inside, **message)) break;
  }
  pumps.over.set();
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
  upstream.still_holds = [this, &request] {
    return still_holds(request.policy_generation, request.judged);
  };
  http::OwnedFields fields = std::move(request.judged.request.fields);
  if (const auto offered = head.find("sec-websocket-protocol"))
    fields.emplace_back("Sec-WebSocket-Protocol", *offered);
  http::Client client(boundary_.loop, connector_to(upstream), host_field(request.origin));
  auto outside = co_await client.open_websocket(request.judged.request.target, std::move(fields));
  if (!outside) {
    if (upstream.refusal) co_return *upstream.refusal;
    co_return Refusal{.status = 502,
                      .code = "upstream_failed",
                      .reason = "the host did not open a WebSocket",
                      .hint = "try again",
                      .rule = {}};
  }
  // What the host chose is its own words, unless it is among what was offered.
  const std::string chosen = (*outside)->subprotocol();
  if (!chosen.empty() && !is_offered(chosen, head.find("sec-websocket-protocol").value_or("")))
    co_return Refusal{.status = 502,
                      .code = "upstream_failed",
                      .reason = "the host chose a protocol that was not offered",
                      .hint = "try again",
                      .rule = {}};
  const http::ResponseHead no_head;
  auto filter = AnswerFilter::open(boundary_, *sandbox_, request.judged, no_head);
  if (!filter) co_return filter.error();
  auto inside = co_await request.exchange.accept_websocket({}, chosen);
  request.answer_begun = true;
  if (!inside) co_return std::nullopt;  // the client was told why
  Pumps pumps{*sandbox_, **inside, **outside, linux::Event(boundary_.loop), {}};
  {
    linux::TaskGroup group(boundary_.loop);
    group.spawn(pump_out(pumps, request.judged, [&](const scan::Finding& finding) {
      return found_in(request.judged, boundary_, finding, request.origin, "message");
    }));
    group.spawn(pump_in(pumps, *filter));
    co_await pumps.over.wait(kNever);
  }
  (void)co_await (*outside)->close(kGone, "");
  (void)co_await (*inside)->close(kGone, "");
  request.bytes_back = pumps.bytes_in;
  request.scrubbed = pumps.scrubbed;
  if (pumps.inert && request.judged.inert.empty())
    request.judged.inert = request.judged.stub_owners->at(pumps.inert->id);
  co_return pumps.refusal;
}

}  // namespace pons::egress
