#pragma once

#include <string>
#include <string_view>

#include "pons/egress/destination.h"
#include "pons/egress/policy.h"
#include "pons/http/exchange.h"

namespace pons::egress {

class AccessRequests;

// Why something does not leave, in words that a program and an agent can act on. Carries names and
// codes only: never what was sent.
struct Refusal {
  int status = 403;
  std::string code;  // stable: "host_not_allowed"
  std::string reason;
  std::string hint;
  std::string rule;  // what decided, where a rule did
};

// Whom a request is for: what the connection itself proves, never what the request says.
struct Origin {
  Destination host;
  std::uint16_t port = 0;
  bool tls = false;
};
std::string to_text(const Origin& origin);  // "api.example.com:443"

Refusal refusal_of(const Decision& decision, const Origin& origin);
// The same, with what a person has said when that sandbox asked for it, or that one is asked.
Refusal refusal_of(const Decision& decision, const Origin& origin, const AccessRequests& access,
                   std::uint64_t sandbox_key);

// TLS to an address that no rule names: it may be that of any host, also of one that is looked
// into, and nothing says whose it is.
bool is_nameless(const Origin& origin, const Policy& policy);

Refusal budget_spent();
// The other side's fault, or nobody's: 502, and worth another try.
Refusal cut_short(std::string code, std::string reason);
// What a request was judged by is no more.
Refusal rules_changed();

// {"code", "host", "reason", "hint", "request_id"}
http::Response to_response(const Refusal& refusal, const std::string& host,
                           const std::string& request_id);

}  // namespace pons::egress
