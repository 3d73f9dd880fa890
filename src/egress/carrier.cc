#include "carrier.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "carried_exchange.h"
#include "outside_url.h"
#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "relay.h"

namespace pons::egress {

namespace {

// Keys of sandboxes are counted from one; those that live for one request must not meet them.
constexpr std::uint64_t kKeysBegin = 1ULL << 63;

bool is_passed_on(std::string_view field) {
  constexpr std::array kFields = {"accept", "content-type", "last-event-id", "mcp-session-id",
                                  "mcp-protocol-version"};
  return std::ranges::any_of(
      kFields, [&](std::string_view known) { return equal_ignoring_case(field, known); });
}

// What runs for the sandbox uses what stands beside it.
struct FlowsEnd {
  linux::TaskGroup& flows;
  explicit FlowsEnd(linux::TaskGroup& which) : flows(which) {}
  FlowsEnd(const FlowsEnd&) = delete;
  ~FlowsEnd() { flows.cancel_all(); }
};

Task<> carry(Relay& relay, CarriedExchange& carried, bool& is_done) {
  co_await relay.handle(carried);
  is_done = true;
}

Error wrong(std::string why) {
  return make_error(ErrorCode::kInvalid, "carry request", std::move(why));
}

}  // namespace

struct Carrier::Order {
  OutsideUrl url;
  CarriedExchange::Request request;
  std::shared_ptr<AttachedSandbox> sandbox;  // in whose place it leaves; lives for this request
  std::string environment;                   // whose rules it has, where it was named
};

Result<Carrier::Order> Carrier::read_order(const http::RequestHead& head) {
  const auto value = [&](std::string_view name) {
    return std::string(head.find(name).value_or(""));
  };
  Order order{.url = TRY(parse_outside_url(value("x-pons-url")))};
  order.request = {
      .method = value("x-pons-method"), .target = order.url.target, .host = order.url.authority};
  if (order.request.method != "POST" && order.request.method != "GET" &&
      order.request.method != "DELETE")
    return wrong("x-pons-method must be DELETE, GET or POST");
  const auto* name = std::get_if<names::HostName>(&order.url.origin.host);
  if (name != nullptr && is_built_in(*name)) return wrong("roles of ours are not outside");
  const std::string whose = value("x-pons-for");
  if (!is_id_text(whose)) return wrong("x-pons-for must name a session");
  order.environment = value("x-pons-environment");
  auto policy = TRY(attachments_.find_policy(
      {.environment = order.environment, .document = value("x-pons-network")}));
  order.sandbox = std::make_shared<AttachedSandbox>(
      boundary_.loop, kKeysBegin + ++carried_, fmt::format("for:{}", whose), std::move(policy));
  for (const http::Field& field : head.fields)
    if (is_passed_on(field.name)) order.request.fields.emplace_back(field.name, field.value);
  TRY_VOID(take_vaults(head, order));
  const std::string credential = value("x-pons-credential");
  if (credential.empty()) return order;
  if (!order.sandbox->also_granted.empty()) return wrong("a request carries one credential");
  const auto& grants = order.sandbox->grants(boundary_.vault);
  const auto granted = std::ranges::find(grants, credential,
                                         [](const Grant& grant) { return grant.credential->name; });
  if (granted == grants.end())
    return make_error(ErrorCode::kDenied, "carry request",
                      "the environment grants no such credential, or it is not in the vault");
  order.request.fields.emplace_back("authorization", fmt::format("Bearer {}", granted->stub));
  return order;
}

Result<void> Carrier::take_vaults(const http::RequestHead& head, Order& order) {
  const std::string_view listed = head.find("x-pons-vaults").value_or("");
  if (listed.empty()) return {};
  const std::string project(head.find("x-pons-project").value_or(""));
  AttachedSandbox& sandbox = *order.sandbox;
  const std::string_view url = head.find("x-pons-url").value_or("");
  std::optional<Error> gone;
  for (const std::string_view word : split(listed, ',')) {
    const std::string id(trim(word));
    const auto vault = attachments_.find_vaults(project, {id});
    if (!vault) gone = vault.error();
    if (!vault) continue;
    sandbox.own_vaults.push_back(vault->front());
    if (!sandbox.also_granted.empty()) continue;
    const auto credential = boundary_.project_vaults->find_for_server(project, id, url);
    if (credential == nullptr) continue;
    sandbox.also_granted = credential->name;
    order.request.fields.emplace_back(
        "authorization",
        fmt::format("Bearer {}", sandbox.stub_for(*vault->front()->vault, *credential)));
  }
  // It may have had the token; without one, nobody would know why the server refuses.
  if (gone && sandbox.also_granted.empty()) return *gone;
  return {};
}

Task<> Carrier::handle(http::Exchange& exchange, std::unique_ptr<http::Transport> ready) {
  auto order = read_order(exchange.request());
  if (!order) {
    exchange.respond(http::error_response(order.error()));
    co_return;
  }
  const Origin& origin = order->url.origin;
  const Decision decision = order->sandbox->policy->judge_connect(origin.host, origin.port);
  if (!decision.allowed()) {
    exchange.respond(to_response(refusal_of(decision, origin), to_text(origin.host), ""));
    co_return;
  }
  attachments_.watch(order->sandbox, order->environment);
  CarriedExchange carried(exchange, std::move(order->request));
  Relay relay(boundary_, order->sandbox, origin, std::move(ready));
  bool is_done = false;
  linux::TaskGroup& flows = order->sandbox->flows;
  const FlowsEnd end{flows};
  flows.spawn(carry(relay, carried, is_done));
  co_await flows.wait_until_empty(kNever);  // what the relay waits for has deadlines
  if (is_done) co_return;
  if (carried.has_begun()) co_return exchange.abort();
  exchange.respond(to_response(rules_changed(), to_text(origin.host), ""));
}

}  // namespace pons::egress
