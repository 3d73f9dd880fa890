#pragma once

#include <optional>
#include <string>

#include "body_memory.h"
#include "relay.h"
#include "turn.h"

namespace pons::egress {

struct Relay::Case {
  http::Exchange& exchange;
  std::string id;
  Origin origin{names::IpAddress::from_v4(0), 0};
  std::uint64_t policy_generation = 0;
  Judged judged;
  std::optional<RequestBody> body;
  std::string held_body;  // all of it, where trailers follow
  std::string sent_body;  // the same, on its way
  http::OwnedFields trailers;
  std::optional<Refusal> trailers_refusal;
  bool has_left = false;  // some of it may have
  bool answer_begun = false;
  bool scrubbed = false;
  bool over_budget = false;  // its body, on the way
  std::uint64_t bytes_back = 0;
  Turn turn;                           // of looking at its answer
  BodyMemory memory;                   // for its stream
  audit::AuditLog::Underway underway;  // once something may have left

  // Whether what it sends is why it ends.
  bool is_stopped() const {
    return over_budget || trailers_refusal || (body && body->is_stopped());
  }
};

}  // namespace pons::egress
