#pragma once

#include <optional>
#include <string>

#include "relay.h"

namespace pons::egress {

struct Relay::Case {
  http::Exchange& exchange;
  std::string id;
  Origin origin{IpAddress::from_v4(0), 0};
  std::uint64_t policy_generation = 0;
  Judged judged;
  std::optional<RequestBody> body;
  bool answer_begun = false;
  bool scrubbed = false;
  bool over_budget = false;  // its body, on the way
  std::uint64_t bytes_back = 0;
  audit::AuditLog::Underway underway;  // once something may have left
};

}  // namespace pons::egress
