#pragma once

#include "pons/http/client.h"
#include "pons/session/world.h"

namespace pons::brain {

// Tells egress what people have decided about wishes of sandboxes.
class EgressDesk final : public session::AccessDesk {
 public:
  // `egress` outlives it.
  explicit EgressDesk(http::Client& egress) : egress_(egress) {}

  Task<Result<session::AccessReport>> decide(session::AccessDecision decision) override;
  Task<Result<void>> withdraw(std::string request) override;

 private:
  http::Client& egress_;
};

// What has become of a request, in a word of egress'. kFailed: a word that is not known.
session::AccessReport access_report_of(std::string_view status, std::string message);

}  // namespace pons::brain
