#include "refusal.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "access_requests.h"
#include "pons/base/json.h"

namespace pons::egress {

namespace {

constexpr const char* kAskForAccess =
    R"(use what is allowed, or ask a person: POST {"host": …, "port": …, "methods": [ … ], "reason": …})"
    " to http://tools.pons.internal/access-requests";

struct Words {
  const char* reason;
  const char* hint;
};

Words words_of(Reason reason) {
  switch (reason) {
    case Reason::kAllowed:
      break;
    case Reason::kNetworkOff:
      return {"this sandbox has no network", "work with what is in the sandbox"};
    case Reason::kHostDenied:
      return {"the policy denies this host", "use another host; a rule says never"};
    case Reason::kHostNotAllowed:
      return {"the policy does not allow this host", kAskForAccess};
    case Reason::kPortNotAllowed:
      return {"the policy does not allow this port of the host", kAskForAccess};
    case Reason::kMethodNotAllowed:
      return {"the policy does not allow this method there", kAskForAccess};
    case Reason::kPathNotAllowed:
      return {"the policy does not allow this path", "use a path that a rule names"};
    case Reason::kPathAmbiguous:
      return {"two servers could read this path differently",
              "write it without dot segments, doubled or encoded slashes"};
    case Reason::kAddressNotAllowed:
      return {"sandboxes may not reach this address, unless a rule names it",
              "connect by name, to a host with public addresses"};
    case Reason::kTooManyNames:
      return {"too many names were asked for", "wait a minute"};
  }
  return {"it is allowed", ""};
}

bool may_be_asked_for(Reason reason) {
  return reason == Reason::kHostNotAllowed || reason == Reason::kPortNotAllowed ||
         reason == Reason::kMethodNotAllowed;
}

}  // namespace

std::string to_text(const Origin& origin) {
  return fmt::format("{}:{}", to_text(origin.host), origin.port);
}

Refusal refusal_of(const Decision& decision, const Origin&) {
  const Words words = words_of(decision.reason);
  return {.code = std::string(to_string(decision.reason)),
          .reason = words.reason,
          .hint = words.hint,
          .rule = decision.rule};
}

Refusal refusal_of(const Decision& decision, const Origin& origin, const AccessRequests& access,
                   std::uint64_t sandbox_key) {
  Refusal refusal = refusal_of(decision, origin);
  if (!may_be_asked_for(decision.reason)) return refusal;
  const AccessRequest* request = access.find_last(sandbox_key, origin.host, origin.port);
  if (request == nullptr) return refusal;
  if (request->is_pending()) {
    refusal.hint = fmt::format("a person is asked already ({}): wait, and try again", request->id);
    return refusal;
  }
  refusal.reason = "a person was asked for this, and did not allow it";
  refusal.hint =
      request->message.empty() ? "do without it" : fmt::format("they said: {}", request->message);
  return refusal;
}

bool is_nameless(const Origin& origin, const Policy& policy) {
  return origin.tls && std::holds_alternative<names::IpAddress>(origin.host) &&
         policy.judge_connect(origin.host, origin.port).breadth == Breadth::kAnything;
}

Refusal budget_spent() {
  return {.status = 429,
          .code = "budget_spent",
          .reason = "the sandbox has used what its policy gives it",
          .hint = "ask for a higher limit",
          .rule = {}};
}

Refusal cut_short(std::string code, std::string reason) {
  return {.status = 502,
          .code = std::move(code),
          .reason = std::move(reason),
          .hint = "try again",
          .rule = {}};
}

Refusal rules_changed() {
  return cut_short("rules_changed", "the rules changed while the request was on its way");
}

http::Response to_response(const Refusal& refusal, const std::string& host,
                           const std::string& request_id) {
  return {.status = refusal.status,
          .body = dump_json({{"code", refusal.code},
                             {"host", host},
                             {"reason", refusal.reason},
                             {"hint", refusal.hint},
                             {"request_id", request_id}}) +
                  "\n",
          .fields = {{"Cache-Control", "no-store"}, {"X-Pons-Refused", refusal.code}}};
}

}  // namespace pons::egress
