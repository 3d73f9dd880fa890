#include "explain.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "judge.h"
#include "outside_url.h"
#include "pick_addresses.h"
#include "pons/base/text.h"

namespace pons::egress {

namespace {

Json refused(const Decision& decision, const Origin& origin) {
  const Refusal refusal = refusal_of(decision, origin);
  return {{"verdict", "block"},
          {"code", refusal.code},
          {"reason", refusal.reason},
          {"hint", refusal.hint},
          {"rule", refusal.rule}};
}

}  // namespace

Task<Result<Json>> explain_request(Boundary& boundary, std::shared_ptr<AttachedSandbox> sandbox,
                                   std::string url, std::string method) {
  CO_TRY(const OutsideUrl address, parse_outside_url(url));
  const Origin& origin = address.origin;
  // Held: another may take its place while the name is resolved.
  const std::shared_ptr<const Policy> held = sandbox->policy;
  const Policy& policy = *held;
  Decision decision = policy.judge_connect(origin.host, origin.port);
  if (!decision.allowed()) co_return refused(decision, origin);
  decision = policy.judge_request(origin.host, origin.port, method, address.target);
  if (!decision.allowed()) co_return refused(decision, origin);
  if (is_nameless(origin, policy))
    co_return refused({.reason = Reason::kAddressNotAllowed}, origin);
  Json credentials = Json::array();
  const auto* name = std::get_if<names::HostName>(&origin.host);
  for (const Grant& grant : sandbox->grants(boundary.vault))
    if (name != nullptr && origin.tls &&
        vault::find_binding(
            *grant.credential,
            {.host = name->text(),
             .port = origin.port,
             .method = method,
             .path = std::string_view(address.target).substr(0, address.target.find('?'))}) !=
            nullptr)
      credentials.push_back(grant.credential->name);
  const bool ended = is_bound(boundary, *sandbox, origin.host) ||
                     boundary.sent_secrets.contains(policy.project(), origin.host) ||
                     policy.needs_inspection(origin.host, origin.port);
  Json answer = {{"verdict", credentials.empty() ? "allow" : "swap"},
                 {"rule", decision.rule},
                 {"tls", !origin.tls ? "none"
                         : ended     ? "looked into"
                                     : "passed through"},
                 {"credentials", std::move(credentials)}};
  if (name != nullptr && !is_built_in(*name)) {
    const auto host =
        co_await boundary.resolver.resolve(*name, boundary.loop.now() + std::chrono::seconds(5));
    if (!host) {
      answer["note"] = "its name cannot be resolved now";
    } else if (!pick_addresses(*host, policy, origin.host, origin.port).decision.allowed()) {
      co_return refused({.reason = Reason::kAddressNotAllowed, .rule = decision.rule}, origin);
    }
  }
  co_return answer;
}

}  // namespace pons::egress
