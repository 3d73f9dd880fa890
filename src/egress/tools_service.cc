// tools.pons.internal: egress itself answers POST /access-requests, and the brain MCP at /mcp.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "access_requests.h"
#include "discretion.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "relay_case.h"

namespace pons::egress {

namespace {

constexpr std::uint32_t kAsksPerMinute = 6;

Refusal refuse(int status, std::string code, std::string reason, std::string hint) {
  return {.status = status,
          .code = std::move(code),
          .reason = std::move(reason),
          .hint = std::move(hint),
          .rule = {}};
}

Refusal too_many(std::string reason) {
  return refuse(429, "too_many_access_requests", std::move(reason),
                "wait; a person reads what was asked for");
}

http::Response accepted(const AccessRequest& request) {
  Json body = {{"id", request.id}, {"status", to_string(request.status)}};
  // The people of its session have it before them.
  if (request.told && !request.session.empty()) body["asked"] = "session";
  return {.status = request.is_pending() ? 202 : 200,
          .body = dump_json(body) + "\n",
          .fields = {{"Cache-Control", "no-store"}}};
}

std::expected<AccessRequest, Refusal> ask_for_access(Boundary& boundary, AttachedSandbox& sandbox,
                                                     AccessWish wish) {
  const std::string host = to_text(wish.host);
  // The body was looked through as it came; a name has no case, so that more can be hidden in it.
  if (for_the_record(boundary, sandbox, host) != host)
    return std::unexpected(refuse(403, "secret_in_request", "the host's name holds a credential",
                                  "ask for a host by its own name"));
  if (const AccessRequest* known = boundary.access.find_pending(sandbox.key, wish)) return *known;
  // What a person has said stands for as long as the sandbox does.
  if (const AccessRequest* known = boundary.access.find_decided(sandbox.key, wish)) {
    const bool is_in_force =
        sandbox.policy->judge_connect(known->wish.host, known->wish.port).allowed();
    if (known->status == AccessStatus::kAllowed && is_in_force) return *known;
    if (known->status == AccessStatus::kDenied)
      return std::unexpected(refuse(
          403, "access_denied", "a person was asked for this, and did not allow it",
          known->message.empty() ? "do without it" : fmt::format("they said: {}", known->message)));
  }
  if (!sandbox.asks.take(kAsksPerMinute, boundary.loop.now()))
    return std::unexpected(too_many("this sandbox asks too often"));
  auto request = boundary.access.add(sandbox.id, sandbox.key, std::move(wish));
  if (!request) {
    if (request.error().code == ErrorCode::kLimit)
      return std::unexpected(too_many(request.error().message));
    LOG_ERROR("an access request cannot be kept", {"error", request.error()});
    return std::unexpected(
        refuse(503, "access_requests_unavailable", "the request cannot be kept", "try later"));
  }
  put_on_record(boundary.audit, *request);
  return *request;
}

}  // namespace

Task<std::optional<Refusal>> Relay::answer_tool(Case& request) {
  const http::RequestHead& head = request.exchange.request();
  if (head.path() == "/mcp" && boundary_.brain_channel >= 0 && !head.upgrade) {
    if (version_ == Version::kHttp2)
      co_return refuse(505, "http_version", "MCP is spoken over HTTP/1.1 here", "use HTTP/1.1");
    if (auto refusal = co_await prepare_body(request)) co_return refusal;
    co_return co_await send(request, upstream_for(request.origin));
  }
  if (head.path() != "/access-requests" || head.upgrade)
    co_return refuse(404, "not_found", "there is nothing at this path",
                     "POST /access-requests and /mcp are what there is");
  if (head.method != "POST")
    co_return refuse(405, "method_not_allowed", "access is asked for with POST", "use POST");
  if (auto refusal = co_await prepare_body(request)) co_return refusal;
  if (request.judged.request.body_source)
    co_return refuse(413, "malformed_request", "the request is too long", "say it in fewer words");
  auto wish = parse_access_wish(request.judged.request.body);
  if (!wish)
    co_return refuse(400, "malformed_request",
                     wish.error().message.empty() ? "the body is not JSON" : wish.error().message,
                     R"(send {"host": "…", "reason": "…"})");
  auto asked = ask_for_access(boundary_, *sandbox_, std::move(*wish));
  if (!asked) co_return asked.error();
  request.exchange.respond(accepted(*asked));
  co_return std::nullopt;
}

}  // namespace pons::egress
